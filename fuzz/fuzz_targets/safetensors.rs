//! The fuzz target `safetensors` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::safetensors::run(bytes));
