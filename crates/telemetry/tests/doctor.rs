//! The doctor on machines whose faults are known.

mod support;

use std::fs;
use std::path::PathBuf;
use support::{Fake, fake};
use telemetry::doctor::{Finding, Places, State, examine};
use telemetry::synthetic::{Board, Scenario};

/// Gives a folder with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = std::env::temp_dir().join(format!("telemetry-doctor-{name}-{}", std::process::id()));
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&root)).expect("a folder of the test's own");
        fs::write(path, text).expect("a file of the test's own");
    }
    root
}

fn places() -> Places {
    Places {
        nvml: Some(fake()),
        rapl: Some("/nowhere".into()),
        toolkits: vec![],
        image: None,
        frameworks: vec![],
    }
}

fn find<'a>(findings: &'a [Finding], id: &str) -> &'a Finding {
    let found = findings.iter().find(|finding| finding.id == id);
    found.unwrap_or_else(|| panic!("no {id} among {findings:?}"))
}

#[test]
fn a_t4_is_described_as_the_source_prints_it() {
    let mut scenario = Scenario::default().on_driver("510.47.03");
    scenario.gpus[0].persistence = false;
    let _fake = Fake::play(&scenario);
    let findings = examine(&places());
    assert_eq!(
        find(&findings, "nvml").detail,
        "driver 510.47.03, CUDA 11.6, GPUs: 1"
    );
    let device = &find(&findings, "gpu.0.device").detail;
    for part in [
        "Tesla T4",
        "compute capability 7.5",
        "40 multiprocessors",
        "320.064 GB/s",
    ] {
        assert!(device.contains(part), "{part} is not in {device}");
    }
    let sensor = &find(&findings, "gpu.0.sensor").detail;
    assert!(sensor.contains("100 ms, every 100 ms"), "{sensor}");
    assert_eq!(find(&findings, "gpu.0.persistence").state, State::Warning);
    assert_eq!(find(&findings, "rapl").state, State::Missing);
    assert_eq!(find(&findings, "cuda.toolkit").state, State::Missing);
}

#[test]
fn both_failures_of_the_source_are_diagnosed() {
    let _fake = Fake::play(&Scenario::default().on_driver("510.47.03"));
    let toolkit = folder(
        "toolkit",
        &[("version.json", r#"{"cuda": {"version": "12.1.1"}}"#)],
    );
    let findings = examine(&Places {
        toolkits: vec!["/nowhere".into(), toolkit.clone()],
        image: Some("cuda>=12.2 driver>=470".to_owned()),
        frameworks: vec![("torch".to_owned(), "2.0.0+cu118".to_owned())],
        ..places()
    });
    fs::remove_dir_all(toolkit).expect("a folder of the test's own");
    for (id, said) in [
        ("cuda.driver", "needs driver 525"),
        ("cuda.image", "asks for CUDA 12.2"),
        ("cuda.framework.torch", "built for 11.8"),
    ] {
        let finding = find(&findings, id);
        assert_eq!(finding.state, State::Failed, "{id}");
        assert!(finding.detail.contains(said), "{id}: {}", finding.detail);
    }
}

#[test]
fn what_fits_is_found() {
    let _fake = Fake::play(&Scenario::of(&[Board::A100, Board::H100]));
    let toolkit = folder("fits", &[("version.txt", "CUDA Version 12.4.0\n")]);
    let rapl = folder(
        "rapl",
        &[
            ("intel-rapl:0/name", "package-0\n"),
            ("intel-rapl:0/energy_uj", "17\n"),
            ("intel-rapl:0/max_energy_range_uj", "262143328850\n"),
        ],
    );
    let findings = examine(&Places {
        toolkits: vec![toolkit.clone()],
        rapl: Some(rapl.clone()),
        image: Some("cuda>=12.2".to_owned()),
        frameworks: vec![("torch".to_owned(), "2.6.0+cu124".to_owned())],
        ..places()
    });
    for root in [toolkit, rapl] {
        fs::remove_dir_all(root).expect("a folder of the test's own");
    }
    let sound = |finding: &Finding| finding.state == State::Found;
    assert!(findings.iter().all(sound), "{findings:#?}");
    assert!(
        find(&findings, "gpu.1.sensor")
            .detail
            .contains("25 ms, every 100 ms")
    );
}

#[test]
fn a_machine_with_nothing_has_no_fault() {
    let findings = examine(&Places {
        nvml: Some("/nowhere/libnvidia-ml.so.1".into()),
        ..places()
    });
    assert!(
        findings
            .iter()
            .all(|finding| finding.state == State::Missing),
        "{findings:?}"
    );
}
