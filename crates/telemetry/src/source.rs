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

/// Whether a device goes by a name. Of places on the bus, the leading zeros of their domain count for nothing, and a domain
/// of 0 may be left out.
fn is_named(device: &Device, name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let place = |text: &str| {
        let text = text.trim_start_matches('0');
        text.trim_start_matches(':')
            .trim_start_matches('0')
            .to_owned()
    };
    let is_uuid = |uuid: &String| lower.len() > 4 && uuid.to_ascii_lowercase().starts_with(&lower);
    let is_place =
        |pci: &String| lower.contains(':') && place(&pci.to_ascii_lowercase()) == place(&lower);
    name.parse() == Ok(device.index)
        || device.uuid.as_ref().is_some_and(is_uuid)
        || device.pci.as_ref().is_some_and(is_place)
}
