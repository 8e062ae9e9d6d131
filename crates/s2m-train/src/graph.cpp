// CUDA graphs of libtorch behind a C interface, since the Rust binding does not reach them.
//
// Built as a small library of its own and loaded after libtorch's CUDA part, so that the program
// starts on machines without CUDA. Every function returns an error text, or null when all went well;
// the caller releases the text with `free`.

#include <cstring>
#include <exception>

#include <ATen/Context.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>

namespace {

template <typename Work>
char *guarded(Work work) {
  try {
    work();
    return nullptr;
  } catch (const std::exception &error) {
    return strdup(error.what());
  } catch (...) {
    return strdup("unknown error");
  }
}

}  // namespace

extern "C" {

// Moves this thread's work to a stream of its own; graphs cannot be captured on the default one.
char *s2m_own_stream() {
  return guarded([] { c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool()); });
}

// Whether products and convolutions of 32-bit floats may round their factors to TF32.
char *s2m_allow_tf32(int allow) {
  return guarded([&] {
    at::globalContext().setAllowTF32CuBLAS(allow != 0);
    at::globalContext().setAllowTF32CuDNN(allow != 0);
  });
}

char *s2m_graph_begin(void **graph) {
  return guarded([&] {
    c10::cuda::getCurrentCUDAStream().synchronize();
    auto *made = new at::cuda::CUDAGraph();
    *graph = made;
    made->capture_begin();
  });
}

char *s2m_graph_end(void *graph) {
  return guarded([&] { static_cast<at::cuda::CUDAGraph *>(graph)->capture_end(); });
}

char *s2m_graph_replay(void *graph) {
  return guarded([&] { static_cast<at::cuda::CUDAGraph *>(graph)->replay(); });
}

void s2m_graph_delete(void *graph) { delete static_cast<at::cuda::CUDAGraph *>(graph); }

}
