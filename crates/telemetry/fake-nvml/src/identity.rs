//! Symbols that find and identify GPUs.
#![allow(unsafe_code, reason = "symbols are exported by their names")]

use crate::abi::{Answer, Code, Out, Text, characters};
use crate::state::{Handle, Query, check_faults, on_gpu, on_system};
use std::ffi::c_char;

/// NVIDIA's PCI vendor id.
const VENDOR: u32 = 0x10DE;

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct PciInfo {
    bus_id_legacy: [c_char; 16],
    domain: u32,
    bus: u32,
    device: u32,
    pci_device_id: u32,
    pci_sub_system_id: u32,
    bus_id: [c_char; 32],
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount(count: Out<u32>) -> Code {
    device_count("nvmlDeviceGetCount", count)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(count: Out<u32>) -> Code {
    device_count("nvmlDeviceGetCount_v2", count)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex(index: u32, handle: Out<Handle>) -> Code {
    handle_by_index("nvmlDeviceGetHandleByIndex", index, handle)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, handle: Out<Handle>) -> Code {
    handle_by_index("nvmlDeviceGetHandleByIndex_v2", index, handle)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByUUID(uuid: Text, handle: Out<Handle>) -> Code {
    let symbol = "nvmlDeviceGetHandleByUUID";
    on_system(symbol, |asked| {
        let uuid = uuid.read()?;
        let n_gpus = asked.model.gpus().len();
        // According to NVIDIA's header, this call fails if any GPU has fallen off the bus.
        for index in 0..n_gpus {
            check_faults(asked.model, symbol, Some(index), asked.now_s)?;
        }
        let index = (0..n_gpus).find(|&index| asked.model.uuid(index) == uuid);
        found(symbol, &asked, index.ok_or(Code::NOT_FOUND)?, handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId(place: Text, handle: Out<Handle>) -> Code {
    handle_by_pci("nvmlDeviceGetHandleByPciBusId", place, handle)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(place: Text, handle: Out<Handle>) -> Code {
    handle_by_pci("nvmlDeviceGetHandleByPciBusId_v2", place, handle)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetIndex(device: Handle, index: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetIndex", device, |asked| {
        index.put(u32::try_from(asked.index).unwrap_or(u32::MAX))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetName(device: Handle, name: Out<c_char>, length: u32) -> Code {
    on_gpu("nvmlDeviceGetName", device, |asked| {
        name.put_text(length, &asked.gpu().gpu().name)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUUID(device: Handle, uuid: Out<c_char>, length: u32) -> Code {
    on_gpu("nvmlDeviceGetUUID", device, |asked| {
        uuid.put_text(length, &asked.model.uuid(asked.index))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPciInfo_v3(device: Handle, info: Out<PciInfo>) -> Code {
    on_gpu("nvmlDeviceGetPciInfo_v3", device, |asked| {
        info.put(pci_info(&asked.model.pci(asked.index)).ok_or(Code::UNKNOWN)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: Handle,
    major: Out<u32>,
    minor: Out<u32>,
) -> Code {
    on_gpu("nvmlDeviceGetCudaComputeCapability", device, |asked| {
        let capability = asked.gpu().gpu().compute_capability;
        major.put(capability.0)?;
        minor.put(capability.1)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetArchitecture(device: Handle, architecture: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetArchitecture", device, |asked| {
        architecture.put(asked.gpu().gpu().architecture as u32)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetBrand(device: Handle, brand: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetBrand", device, |asked| {
        brand.put(brand_of(&asked.gpu().gpu().name))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetNumGpuCores(device: Handle, n_cores: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetNumGpuCores", device, |asked| {
        n_cores.put(asked.gpu().gpu().n_cores)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryBusWidth(device: Handle, bits: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetMemoryBusWidth", device, |asked| {
        bits.put(asked.gpu().gpu().memory_bus_bits)
    })
}

/// Returns the `nvmlBrandType_t` of a product. Older product names contain the brand; newer ones do
/// not.
fn brand_of(name: &str) -> u32 {
    const BRANDS: [(&str, u32); 2] = [("Tesla", 2), ("GeForce", 5)];
    const NVIDIA: u32 = 14;
    let found = BRANDS.iter().find(|(word, _)| name.contains(word));
    found.map_or(NVIDIA, |(_, brand)| *brand)
}

fn device_count(symbol: &'static str, count: Out<u32>) -> Code {
    on_system(symbol, |asked| {
        count.put(u32::try_from(asked.model.gpus().len()).unwrap_or(u32::MAX))
    })
}

fn handle_by_index(symbol: &'static str, index: u32, handle: Out<Handle>) -> Code {
    on_system(symbol, |asked| {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if index >= asked.model.gpus().len() {
            return Err(Code::INVALID_ARGUMENT);
        }
        found(symbol, &asked, index, handle)
    })
}

fn handle_by_pci(symbol: &'static str, place: Text, handle: Out<Handle>) -> Code {
    on_system(symbol, |asked| {
        let parts = place_parts(&place.read()?).ok_or(Code::INVALID_ARGUMENT)?;
        let mut indices = 0..asked.model.gpus().len();
        let index = indices.find(|&i| place_parts(&asked.model.pci(i)) == Some(parts));
        found(symbol, &asked, index.ok_or(Code::NOT_FOUND)?, handle)
    })
}

/// Writes the handle of a GPU unless a fault rule applies to the call.
fn found(symbol: &str, asked: &Query<'_>, index: usize, handle: Out<Handle>) -> Answer {
    check_faults(asked.model, symbol, Some(index), asked.now_s)?;
    handle.put(Handle::new(index))
}

/// Parses domain, bus and device, which are hexadecimal, from a PCI bus id.
fn place_parts(place: &str) -> Option<[u32; 3]> {
    let (place, _function) = place.split_once('.').unwrap_or((place, "0"));
    let mut numbers = place
        .split(':')
        .map(|part| u32::from_str_radix(part, 16).ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

fn pci_info(place: &str) -> Option<PciInfo> {
    let [domain, bus, device] = place_parts(place)?;
    let mut info = PciInfo {
        bus_id_legacy: [0; 16],
        domain,
        bus,
        device,
        pci_device_id: VENDOR,
        pci_sub_system_id: VENDOR,
        bus_id: [0; 32],
    };
    let legacy = characters(&format!("{domain:04X}:{bus:02X}:{device:02X}.0"));
    let full = characters(&format!("{domain:08X}:{bus:02X}:{device:02X}.0"));
    info.bus_id_legacy
        .get_mut(..legacy.len())?
        .copy_from_slice(&legacy);
    info.bus_id.get_mut(..full.len())?.copy_from_slice(&full);
    Some(info)
}
