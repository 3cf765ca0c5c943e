//! Where numbers come from.

use crate::{Device, Error, Fault, Metric, Result, Values};
use std::time::Duration;

/// Something that tells the metrics of devices: a driver's library, a recorded trace, a model.
///
/// A source is opened once, finds out what it can tell, and is then read again and again. What fails later is a fault of
/// one metric in one reading: a lost GPU ends no run, and a source that can reconnects by itself.
pub trait Source: Send {
    /// Gives the name of the source: `nvml`.
    fn name(&self) -> &'static str;

    /// Gives the devices, as they were found.
    fn devices(&self) -> &[Device];

    /// Reads all metrics of a device. `now` is the time of the trace, which recorded and modelled sources need.
    ///
    /// # Panics
    /// If there is no such device.
    fn read(&mut self, device: usize, now: Duration) -> Reading;
}

/// What a device told at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The values.
    pub values: Values,
    /// Why metrics that the device has are not among them.
    pub faults: Vec<(Metric, Fault)>,
}

/// Which devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// All of them.
    #[default]
    All,
    /// Those that one of these names: an index, the beginning of a UUID, or a place on the bus.
    Named(Vec<String>),
}

impl Select {
    /// Gives the indices of the selected devices, in their order and each once.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if a name means no device, or several, or if there are no devices.
    pub fn among(&self, devices: &[Device]) -> Result<Vec<usize>> {
        let refused = |selection: &str| Error::NoDevice {
            operation: "Select::among",
            selection: selection.to_owned(),
            n_devices: devices.len(),
        };
        let mut indices = vec![];
        match self {
            Self::All => indices.extend(0..devices.len()),
            Self::Named(names) => {
                for name in names {
                    let mut found = (0..devices.len()).filter(|&i| is_named(&devices[i], name));
                    match (found.next(), found.next()) {
                        (Some(only), None) => indices.push(only),
                        _ => return Err(refused(name)),
                    }
                }
            }
        }
        if indices.is_empty() {
            return Err(refused("any device"));
        }
        indices.sort_unstable();
        indices.dedup();
        Ok(indices)
    }
}

/// Whether a device goes by a name: its index, the beginning of its UUID, or its place on the PCI
/// bus, of which a domain of 0 may be left out.
fn is_named(device: &Device, name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_uuid = |uuid: &String| lower.len() > 4 && uuid.to_ascii_lowercase().starts_with(&lower);
    let is_place = |pci: &String| place(pci).is_some_and(|of| Some(of) == place(&lower));
    name.parse() == Ok(device.index)
        || device.uuid.as_ref().is_some_and(is_uuid)
        || device.pci.as_ref().is_some_and(is_place)
}

/// Returns domain, bus, and device with function of a place on the PCI bus, such as `0000:01:00.0`.
fn place(text: &str) -> Option<(u32, u32, String)> {
    let hex = |part: &str| u32::from_str_radix(part, 16).ok();
    match text.split(':').collect::<Vec<_>>()[..] {
        [bus, device] => Some((0, hex(bus)?, device.to_ascii_lowercase())),
        [domain, bus, device] => Some((hex(domain)?, hex(bus)?, device.to_ascii_lowercase())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Program, Synthetic};

    #[test]
    fn a_place_on_the_bus_is_found_with_and_without_its_domain() {
        let model = Synthetic::of(Program::constant(65.0)).unwrap();
        let mut device = model.devices()[0].clone();
        for (pci, names, others) in [
            (
                "0000:00:1e.0",
                ["00:1e.0", "0000:00:1e.0", "00000000:00:1E.0"],
                ["01:1e.0", "0001:00:1e.0", ":1e.0"],
            ),
            (
                "00000000:01:00.0",
                ["01:00.0", "1:00.0", "0:01:00.0"],
                ["00:00.0", "00:01:00.1", "01:00:01:00.0"],
            ),
            (
                "0002:00:04.0",
                ["0002:00:04.0", "2:00:04.0", "00000002:0:04.0"],
                ["00:04.0", "0:00:04.0", "20:00:04.0"],
            ),
        ] {
            device.pci = Some(pci.to_owned());
            for name in names {
                assert!(is_named(&device, name), "{pci} {name}");
            }
            for name in others {
                assert!(!is_named(&device, name), "{pci} {name}");
            }
        }
    }
}
