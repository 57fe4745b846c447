// What was compiled once, kept on disk: private to the user, verified whenever it is read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tilewright/core/macros.h"
#include "tilewright/runtime/sha256.h"

namespace tw::runtime {

/// Where this user's caches are: $TILEWRIGHT_CACHE_DIR, or else `tilewright` in $XDG_CACHE_HOME, by
/// default ~/.cache. Empty when none of them is an absolute path.
TW_API std::string cache_folder();

/// Artifacts by the digest of all that they are made from. Any number of threads and processes may
/// use one folder: files appear by renaming, and one of those that want the same artifact makes it.
class TW_API ArtifactCache {
 public:
  static constexpr int64_t kDefaultMostBytes = int64_t{512} << 20;

  /// `folder` is created when the first artifact is kept. Empty: nothing is kept.
  explicit ArtifactCache(std::string folder, int64_t most_bytes = kDefaultMostBytes);

  struct Found {
    std::string bytes;
    bool was_kept = false;
  };
  /// The artifact of `key`; where there is none, or one that is damaged, what make() returns, which
  /// is kept. A folder that cannot be used, or that others can write to, is said so on stderr,
  /// once, and keeps nothing. Throws what make() throws.
  Found get(const Digest& key, const std::function<std::string()>& make) const;

  /// Where an artifact is kept.
  std::string path_of(const Digest& key) const;

 private:
  bool read(const Digest& key, std::string& bytes) const;
  void keep(const Digest& key, std::string_view bytes) const;
  void remove_oldest() const;
  bool is_usable() const;

  std::string folder_;
  int64_t most_bytes_;
};

}  // namespace tw::runtime
