tar -C build -xJf build/gpu.tar.xz
cd build/v && ln -sf libtilewright.so.0 libtilewright.so; cd ../..
export PYTHONPATH=$PWD/python:$PWD/benchmarks/gpu:$PWD TILEWRIGHT_LIBRARY_DIR=$PWD/build/v LD_LIBRARY_PATH=$PWD/build/v
for i in 0 1 2 3 4 5; do GTEST_TOTAL_SHARDS=6 GTEST_SHARD_INDEX=$i TILEWRIGHT_NUM_THREADS=3 build/v/tilewright_tests --gtest_filter='*/cuda/*' >$OUT/conf$i.txt 2>&1 & done; wait
grep -h "PASSED\|FAILED" $OUT/conf*.txt | head -20
python benchmarks/gpu/torch_peers.py --no-compile --out $OUT/gpu_memory_bound.json 2>&1
python benchmarks/gpu/gemm_peers.py --out $OUT/gemm.json 2>&1 | tail -75
timeout 100 compute-sanitizer --tool memcheck build/v/tilewright_tests --gtest_filter='*fused_add_rms_norm/cuda/*:*/layer_norm/cuda/*:*rms_norm_backward/cuda/bf16*' >$OUT/mem.txt 2>&1; tail -3 $OUT/mem.txt
timeout 60 compute-sanitizer --tool initcheck build/v/tilewright_tests --gtest_filter='*fused_add_rms_norm/cuda/*' >$OUT/init.txt 2>&1; tail -2 $OUT/init.txt
timeout 200 python -m pytest -q -x -p no:cacheprovider tests/python/ops/test_torch_cuda.py tests/python/ops/test_scaled_matmul_cuda.py tests/python/ops/test_decoding_cuda.py tests/python/ops/test_float32_precision.py 2>&1 | tail -5
