// Stands in for tile/cuda/grid_dependency.h: no grids come before or after.
#pragma once

namespace tw::tile::cuda {

inline void wait_for_grids_before() {}
inline void launch_grids_after() {}

}  // namespace tw::tile::cuda
