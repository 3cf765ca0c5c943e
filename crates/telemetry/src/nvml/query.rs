//! What a GPU is: the query that every introduction to CUDA begins with, without CUDA.

use super::{Nvml, PER_MILLI};
use nvml_wrapper::enum_wrappers::device::{Brand, Clock};

/// Bits of a byte, and transfers in a tick of a memory clock: data goes over at both of its edges.
const BITS: f64 = 8.0;
const TRANSFERS: f64 = 2.0;
const PER_GIGA: f64 = 1e-9;
const PER_MEGA_INVERSE: f64 = 1e6;

/// What a GPU is; what its driver does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// Its name.
    pub name: Option<String>,
    /// Its brand, as conditions of images have it: `tesla`.
    pub brand: Option<&'static str>,
    /// Its compute capability, major and minor.
    pub compute_capability: Option<(u32, u32)>,
    /// How many CUDA cores it has.
    pub cores: Option<u32>,
    /// How many multiprocessors: the cores over those of one, by compute capability.
    pub multiprocessors: Option<u32>,
    /// The highest clock of its memory, in MHz.
    pub memory_clock_mhz: Option<u32>,
    /// The width of its memory's bus, in bits.
    pub bus_width_bits: Option<u32>,
    /// The bandwidth that follows, `2 · clock · width / 8`, in GB/s.
    pub bandwidth_gb_s: Option<f64>,
    /// Its memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// The power limit in force, in W.
    pub power_limit_w: Option<f64>,
    /// Whether the driver stays loaded while nobody uses the GPU.
    pub is_persistent: Option<bool>,
    /// Whether it is divided (MIG).
    pub is_mig: Option<bool>,
}

impl Nvml {
    /// Asks what a GPU is.
    ///
    /// # Panics
    /// If there is no such device.
    #[must_use]
    pub fn query(&self, device: usize) -> Query {
        let (Some(library), Ok(handle)) = (&self.library, self.handles[device]) else {
            return Query::default();
        };
        let gpu = handle.device(library);
        let capability = gpu.cuda_compute_capability().ok();
        let capability = capability
            .and_then(|cc| Some((u32::try_from(cc.major).ok()?, u32::try_from(cc.minor).ok()?)));
        let cores = gpu.num_cores().ok();
        let clock = gpu.max_clock_info(Clock::Memory).ok();
        let width = gpu.memory_bus_width().ok();
        Query {
            name: gpu.name().ok(),
            brand: gpu.brand().ok().map(word_for),
            compute_capability: capability,
            cores,
            multiprocessors: cores
                .zip(capability.and_then(cores_per_multiprocessor))
                .map(|(cores, of_one)| cores / of_one),
            memory_clock_mhz: clock,
            bus_width_bits: width,
            bandwidth_gb_s: clock
                .zip(width)
                .map(|(clock, width)| bandwidth(clock, width)),
            memory_bytes: handle.memory(library).ok().map(|[total, _]| total),
            power_limit_w: gpu
                .enforced_power_limit()
                .ok()
                .map(|mw| f64::from(mw) * PER_MILLI),
            is_persistent: gpu.is_in_persistent_mode().ok(),
            is_mig: gpu.mig_mode().ok().map(|mode| mode.current != 0),
        }
    }

    /// Gives the version of CUDA that the driver speaks, major and minor.
    #[must_use]
    pub fn cuda_version(&self) -> Option<(u32, u32)> {
        const MAJOR: i32 = 1000;
        const MINOR: i32 = 10;
        let version = self.library.as_ref()?.sys_cuda_driver_version().ok()?;
        let major = u32::try_from(version / MAJOR).ok()?;
        Some((major, u32::try_from(version % MAJOR / MINOR).ok()?))
    }
}

/// Gives the bandwidth of a memory in GB/s, from its clock in MHz and the width of its bus in bits.
#[must_use]
pub fn bandwidth(clock_mhz: u32, width_bits: u32) -> f64 {
    let clock_hz = f64::from(clock_mhz) * PER_MEGA_INVERSE;
    TRANSFERS * clock_hz * f64::from(width_bits) / BITS * PER_GIGA
}

/// Gives the word that conditions of images have for a brand.
///
/// # Source
/// NVIDIA's images of CUDA, `NVIDIA_REQUIRE_CUDA`.
fn word_for(brand: Brand) -> &'static str {
    match brand {
        Brand::Unknown => "unknown",
        Brand::Quadro => "quadro",
        Brand::Tesla => "tesla",
        Brand::NVS => "nvs",
        Brand::GRID => "grid",
        Brand::GeForce => "geforce",
        Brand::Titan => "titan",
        Brand::VApps => "vapps",
        Brand::VPC => "vpc",
        Brand::VCS => "vcs",
        Brand::VWS => "vws",
        Brand::CloudGaming | Brand::VGaming => "cloudgaming",
        Brand::QuadroRTX => "quadrortx",
        Brand::NvidiaRTX => "nvidiartx",
        Brand::Nvidia => "nvidia",
        Brand::GeForceRTX => "geforcertx",
        Brand::TitanRTX => "titanrtx",
    }
}

/// Gives how many cores for f32 a multiprocessor of a compute capability (major, minor) has; none if it is not known.
///
/// # Source
/// NVIDIA, "CUDA C++ Programming Guide", table of arithmetic throughput by compute capability.
#[must_use]
pub fn cores_per_multiprocessor(capability: (u32, u32)) -> Option<u32> {
    match capability {
        (3, _) => Some(192),
        (6, 0) | (7, _) | (8, 0) => Some(64),
        (5 | 6 | 8 | 9 | 10 | 12, _) => Some(128),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_t4_has_320_gigabytes_per_second_and_40_multiprocessors() {
        assert!((bandwidth(5001, 256) - 320.064).abs() < 1e-9);
        assert_eq!(
            cores_per_multiprocessor((7, 5)).map(|of_one| 2560 / of_one),
            Some(40)
        );
        // An A100, an RTX 3090 and an H100.
        assert_eq!(
            cores_per_multiprocessor((8, 0)).map(|of_one| 6912 / of_one),
            Some(108)
        );
        assert_eq!(
            cores_per_multiprocessor((8, 6)).map(|of_one| 10496 / of_one),
            Some(82)
        );
        assert_eq!(
            cores_per_multiprocessor((9, 0)).map(|of_one| 16896 / of_one),
            Some(132)
        );
    }
}
