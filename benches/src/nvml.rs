//! Whether NVIDIA's management library loads on this machine.
#![expect(unsafe_code, reason = "loading a library runs its initialisers")]

const NAMES: [&str; 2] = ["libnvidia-ml.so.1", "nvml.dll"];

/// Loads the library and lets it go again; gives the name under which it loaded, or the loader's words.
///
/// # Errors
/// What the loader said of this system's name for the library.
pub fn loads() -> Result<&'static str, String> {
    let name = if cfg!(windows) { NAMES[1] } else { NAMES[0] };
    // SAFETY: NVIDIA's library has no initialiser with preconditions; nothing of it is called or kept.
    match unsafe { libloading::Library::new(name) } {
        Ok(_) => Ok(name),
        Err(error) => Err(error.to_string()),
    }
}
