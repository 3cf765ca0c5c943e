//! Static properties of a GPU, like those of CUDA's device query, but without CUDA.

use super::{Nvml, PER_MILLI};
use nvml_wrapper::enum_wrappers::device::{Brand, Clock};

/// Number of bits per byte.
const BITS: f64 = 8.0;
/// Transfers per cycle of the memory clock: data is transferred at both edges.
const TRANSFERS: f64 = 2.0;
const PER_GIGA: f64 = 1e-9;
const PER_MEGA_INVERSE: f64 = 1e6;

/// The static properties of a GPU; a property that the driver does not report is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// Product name.
    pub name: Option<String>,
    /// Brand, spelled as in `NVIDIA_REQUIRE_CUDA`, such as `tesla`.
    pub brand: Option<&'static str>,
    /// Compute capability, major and minor.
    pub compute_capability: Option<(u32, u32)>,
    /// Number of CUDA cores.
    pub cores: Option<u32>,
    /// Number of multiprocessors, computed as the cores divided by [`cores_per_multiprocessor`].
    pub multiprocessors: Option<u32>,
    /// Highest memory clock, in MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Width of the memory bus, in bits.
    pub bus_width_bits: Option<u32>,
    /// Theoretical memory bandwidth, `2 · clock · width / 8`, in GB/s.
    pub bandwidth_gb_s: Option<f64>,
    /// Total memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// The power limit in force, in W.
    pub power_limit_w: Option<f64>,
    /// Whether the driver stays loaded while the GPU is unused (persistence mode); `None` on
    /// systems other than Linux.
    pub is_persistent: Option<bool>,
    /// Whether the GPU is partitioned into instances (MIG).
    pub is_mig: Option<bool>,
}

impl Nvml {
    /// Queries the static properties of a GPU. All are `None` if the GPU is lost.
    ///
    /// # Panics
    /// Panics if there is no such device.
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
            // Only the Linux driver has the mode.
            #[cfg(target_os = "linux")]
            is_persistent: gpu.is_in_persistent_mode().ok(),
            #[cfg(not(target_os = "linux"))]
            is_persistent: None,
            is_mig: gpu.mig_mode().ok().map(|mode| mode.current != 0),
        }
    }

    /// Returns the newest CUDA version that the driver supports, major and minor.
    #[must_use]
    pub fn cuda_version(&self) -> Option<(u32, u32)> {
        // NVML encodes the version as `1000 · major + 10 · minor`.
        const MAJOR: i32 = 1000;
        const MINOR: i32 = 10;
        let version = self.library.as_ref()?.sys_cuda_driver_version().ok()?;
        let major = u32::try_from(version / MAJOR).ok()?;
        Some((major, u32::try_from(version % MAJOR / MINOR).ok()?))
    }
}

/// Computes the theoretical bandwidth of a memory, in GB/s, with two transfers per clock cycle.
#[must_use]
pub fn bandwidth(clock_mhz: u32, width_bits: u32) -> f64 {
    let clock_hz = f64::from(clock_mhz) * PER_MEGA_INVERSE;
    TRANSFERS * clock_hz * f64::from(width_bits) / BITS * PER_GIGA
}

/// Returns the name of a brand in the conditions of container images.
///
/// # Source
/// NVIDIA's CUDA container images, variable `NVIDIA_REQUIRE_CUDA`.
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

/// Returns the number of f32 cores per multiprocessor for a compute capability (major, minor).
///
/// Returns `None` for an unknown compute capability.
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
