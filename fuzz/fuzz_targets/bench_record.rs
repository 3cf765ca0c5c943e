//! The fuzz target `bench_record` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::bench_record::run(bytes));
