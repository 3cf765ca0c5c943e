//! Simulated machines: any text is a scenario or an error.
//!
//! Method: a scenario must be equal after it is written and read again. The sensors, the counter
//! and the faults of its devices are read at several times.

use telemetry::synthetic::{Call, Model, PowerField, Scenario};

/// Times at which a machine is read, in s.
const TIMES_S: [f64; 4] = [0.0, 0.1, 7.3, 1e6];
/// Maximum number of devices of a machine that is read.
const MAX_DEVICES: usize = 8;

/// Checks the reader of scenarios, and the model.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let scenario = match Scenario::from_json(text) {
        Ok(scenario) => scenario,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let written = scenario
        .to_json()
        .expect("JSON represents what it contained");
    let again = Scenario::from_json(&written).expect("a written scenario can be read");
    assert_eq!(again, scenario);
    let model = match Model::new(scenario) {
        Ok(model) => model,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    for (index, gpu) in model.gpus().iter().enumerate().take(MAX_DEVICES) {
        for time_s in TIMES_S {
            let power_w = gpu.power_w(time_s);
            assert!(power_w >= 0.0, "{power_w} W");
            // The value of a sensor may be any number, because its gain may be.
            let _ = gpu.reported_w(PowerField::Instant, time_s);
            let _ = (
                gpu.counted_j(time_s),
                gpu.busy_pct(time_s),
                gpu.temperature_c(time_s),
            );
            let call = Call {
                symbol: "nvmlDeviceGetPowerUsage",
                gpu: Some(index),
                field: None,
            };
            let _ = model.failure(&call, time_s);
        }
    }
}
