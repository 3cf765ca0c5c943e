//! Sources of readings, and selection of devices.

use crate::{Device, Error, Fault, Metric, Result, Values};
use std::time::Duration;

/// A source of device readings: a driver's library, a recorded trace or a model.
///
/// A source is opened once, determines which metrics each device supports, and is then read
/// repeatedly. A later failure is a fault of one metric in one reading, so a lost GPU does not end
/// a run. Sources that can reconnect do so automatically.
pub trait Source: Send {
    /// Returns the name of the source, such as `nvml`.
    fn name(&self) -> &'static str;

    /// Returns the devices found when the source was opened.
    fn devices(&self) -> &[Device];

    /// Reads all metrics of a device.
    ///
    /// `now` is the time since the start of the trace. Recorded traces and models return the values
    /// of that time.
    ///
    /// # Panics
    /// Panics if there is no such device.
    fn read(&mut self, device: usize, now: Duration) -> Reading;
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn devices(&self) -> &[Device] {
        (**self).devices()
    }

    fn read(&mut self, device: usize, now: Duration) -> Reading {
        (**self).read(device, now)
    }
}

/// The values and faults of one reading of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Values of the metrics.
    pub values: Values,
    /// Faults of supported metrics that have no value in this reading.
    pub faults: Vec<(Metric, Fault)>,
}

/// A selection of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// All devices of the source.
    #[default]
    All,
    /// Devices that match one of these names. A name is an index, the beginning of a UUID (at least
    /// five characters) or a PCI address.
    Named(Vec<String>),
}

impl Select {
    /// Returns the indices of the selected devices, in ascending order and without duplicates.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if a name matches no device or several, or if there are no devices.
    pub fn among(&self, devices: &[Device]) -> Result<Vec<usize>> {
        let no_device = |selection: &str| Error::NoDevice {
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
                        _ => return Err(no_device(name)),
                    }
                }
            }
        }
        if indices.is_empty() {
            return Err(no_device("any device"));
        }
        indices.sort_unstable();
        indices.dedup();
        Ok(indices)
    }
}

/// Returns whether a name matches a device: its index, the beginning of its UUID, or its PCI
/// address, whose domain may be left out if it is 0.
fn is_named(device: &Device, name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_uuid = |uuid: &String| lower.len() > 4 && uuid.to_ascii_lowercase().starts_with(&lower);
    let is_place = |pci: &String| place(pci).is_some_and(|of| Some(of) == place(&lower));
    name.parse() == Ok(device.index)
        || device.uuid.as_ref().is_some_and(is_uuid)
        || device.pci.as_ref().is_some_and(is_place)
}

/// Parses a PCI address, such as `0000:01:00.0`, into domain, bus, and device with function.
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
    use crate::synthetic::{PowerProfile, Synthetic};

    #[test]
    fn a_place_on_the_bus_is_found_with_and_without_its_domain() {
        let model = Synthetic::from_power(PowerProfile::constant(65.0)).unwrap();
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
