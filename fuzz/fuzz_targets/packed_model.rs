//! The fuzz target `packed_model` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::packed_model::run(bytes));
