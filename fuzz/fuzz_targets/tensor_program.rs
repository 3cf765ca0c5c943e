//! The fuzz target `tensor_program` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::tensor_program::run(bytes));
