//! NVIDIA's management library for machines without a GPU.
