//! Symbols of the library and the system: initialisation, versions, names of processes.
#![allow(unsafe_code, reason = "symbols are exported by their names")]

use crate::abi::{Code, Message, Out};
use crate::state::{answer, on_system};
use std::ffi::{CStr, c_char};

#[unsafe(no_mangle)]
extern "C" fn nvmlInit() -> Code {
    answer("nvmlInit", |state| state.initialise("nvmlInit"))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> Code {
    answer("nvmlInit_v2", |state| state.initialise("nvmlInit_v2"))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: u32) -> Code {
    let symbol = "nvmlInitWithFlags";
    answer(symbol, |state| state.initialise(symbol))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> Code {
    answer("nvmlShutdown", |state| state.shut_down())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: Code) -> Message {
    Message::new(words(code))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(version: Out<c_char>, length: u32) -> Code {
    on_system("nvmlSystemGetDriverVersion", |asked| {
        version.put_text(length, &asked.model.scenario().driver.version)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetNVMLVersion(version: Out<c_char>, length: u32) -> Code {
    on_system("nvmlSystemGetNVMLVersion", |asked| {
        version.put_text(length, &asked.model.scenario().driver.library_version())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion(version: Out<u32>) -> Code {
    cuda_version("nvmlSystemGetCudaDriverVersion", version)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: Out<u32>) -> Code {
    cuda_version("nvmlSystemGetCudaDriverVersion_v2", version)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetProcessName(pid: u32, name: Out<c_char>, length: u32) -> Code {
    on_system("nvmlSystemGetProcessName", |asked| {
        let gpus = &asked.model.scenario().gpus;
        let mut processes = gpus.iter().flat_map(|gpu| &gpu.processes);
        let process = processes.find(|process| process.pid == pid);
        name.put_text(length, &process.ok_or(Code::NOT_FOUND)?.name)
    })
}

fn cuda_version(symbol: &'static str, version: Out<u32>) -> Code {
    on_system(symbol, |asked| {
        version.put(asked.model.scenario().driver.cuda_version())
    })
}

fn words(code: Code) -> &'static CStr {
    match code.0 {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        9 => c"Driver Not Loaded",
        13 => c"Function Not Found",
        15 => c"GPU is lost",
        18 => c"Driver/library version mismatch",
        25 => c"Argument version mismatch",
        _ => c"Unknown Error",
    }
}
