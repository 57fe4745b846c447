tar -C build -xJf build/gpu.tar.xz
cd build/v; for v in v0 v1 v2 v3; do ln -sf ../tilewright_torch.so ../tilewright_cases.so $v/; done; ls -la v0; cd ../..
export PYTHONPATH=$PWD/python:$PWD/benchmarks/gpu:$PWD
lib() { export TILEWRIGHT_LIBRARY_DIR=$PWD/build/v/$1 LD_LIBRARY_PATH=$PWD/build/v/$1; }
lib v0
build/v/tilewright_tests --gtest_filter='*/cuda/*norm*' >$OUT/conf.txt 2>&1; tail -3 $OUT/conf.txt; grep "FAILED" $OUT/conf.txt | head
for v in v0 v1 v2 v3; do lib $v; echo "== $v"; python benchmarks/gpu/torch_peers.py --no-compile "sum dim 0" 2>&1 | tail -7; done
lib v0; python benchmarks/gpu/torch_peers.py --no-compile norm 2>&1
for v in v0 v1 v2 v3 v3 v2 v1 v0; do lib $v; echo "== $v"; python benchmarks/gpu/attention_backward.py "D128 S512" "D128 S1024" "D128 S2048" "D128 S8192" packed 2>&1 | cut -c1-110; done
lib v0; timeout 120 compute-sanitizer --tool memcheck build/v/tilewright_tests --gtest_filter='*/cuda/*layer_norm/*:*/cuda/*fused_add*' >$OUT/mem.txt 2>&1; tail -3 $OUT/mem.txt
