// The stand-in for libtorch_cpu.so when linking: it has the name and nothing else.
