//! `doctor` on machines with known faults.

use crate::support::{Fake, fake};
use std::fs;
use telemetry::doctor::{Finding, Status, SystemPaths, examine};
use telemetry::synthetic::{Architecture, Board, FaultRule, Scenario};
use tool_io::TemporaryFolder;

/// The driver requirements of NVIDIA's CUDA 12.2 image, shortened to three entries.
const CUDA_12_2: &str = "cuda>=12.2 brand=tesla,driver>=470,driver<471 \
    brand=unknown,driver>=470,driver<471 brand=tesla,driver>=525,driver<526";

/// Creates a temporary folder with these files.
fn folder(files: &[(&str, &str)]) -> TemporaryFolder {
    let folder = TemporaryFolder::create(&std::env::temp_dir(), "telemetry-doctor")
        .expect("the folder can be created");
    let root = folder.path();
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap_or(root)).expect("the folder can be created");
        fs::write(path, text).expect("the file can be written");
    }
    folder
}

fn places() -> SystemPaths {
    SystemPaths {
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
    assert_eq!(find(&findings, "gpu.0.persistence").state, Status::Warning);
    assert_eq!(find(&findings, "rapl").state, Status::Missing);
    assert_eq!(find(&findings, "cuda.toolkit").state, Status::Missing);
}

#[test]
fn both_failures_of_the_source_are_diagnosed() {
    let _fake = Fake::play(&Scenario::default().on_driver("510.47.03"));
    let toolkit = folder(&[("version.json", r#"{"cuda": {"version": "12.1.1"}}"#)]);
    let findings = examine(&SystemPaths {
        toolkits: vec!["/nowhere".into(), toolkit.path().to_owned()],
        image: Some(CUDA_12_2.to_owned()),
        frameworks: vec![("torch".to_owned(), "2.0.0+cu118".to_owned())],
        ..places()
    });
    for (id, said) in [
        ("cuda.driver", "needs driver 525"),
        ("cuda.image", "expected cuda>=12.2"),
        ("cuda.framework.torch", "built for 11.8"),
    ] {
        let finding = find(&findings, id);
        assert_eq!(finding.state, Status::Failed, "{id}");
        assert!(finding.detail.contains(said), "{id}: {}", finding.detail);
    }
}

#[test]
fn what_fits_is_found() {
    let _fake = Fake::play(&Scenario::from_boards(&[Board::A100, Board::H100]));
    let toolkit = folder(&[("version.txt", "CUDA Version 12.4.0\n")]);
    let rapl = folder(&[
        ("intel-rapl:0/name", "package-0\n"),
        ("intel-rapl:0/energy_uj", "17\n"),
        ("intel-rapl:0/max_energy_range_uj", "262143328850\n"),
    ]);
    let findings = examine(&SystemPaths {
        toolkits: vec![toolkit.path().to_owned()],
        rapl: Some(rapl.path().to_owned()),
        image: Some("cuda>=12.2".to_owned()),
        frameworks: vec![("torch".to_owned(), "2.6.0+cu124".to_owned())],
        ..places()
    });
    let sound = |finding: &Finding| finding.state == Status::Found;
    assert!(findings.iter().all(sound), "{findings:#?}");
    assert!(
        find(&findings, "gpu.1.sensor")
            .detail
            .contains("25 ms, every 100 ms")
    );
}

#[test]
fn a_machine_with_nothing_has_no_fault() {
    let findings = examine(&SystemPaths {
        nvml: Some("/nowhere/libnvidia-ml.so.1".into()),
        ..places()
    });
    assert!(
        findings
            .iter()
            .all(|finding| finding.state == Status::Missing),
        "{findings:?}"
    );
}

#[test]
fn a_library_that_is_there_and_does_not_work_is_a_fault_with_its_fix() {
    for (code, fix) in [
        (4, "/dev/nvidia"),
        (9, "modprobe nvidia"),
        (18, "restart the machine"),
        (999, "dmesg"),
    ] {
        let rule = FaultRule::for_symbol("nvmlInit*", code);
        let _fake = Fake::play(&Scenario::default().with_fault(rule));
        let findings = examine(&places());
        let nvml = find(&findings, "nvml");
        assert_eq!(nvml.state, Status::Failed, "{code}");
        assert!(nvml.detail.contains(fix), "{code}: {}", nvml.detail);
    }
    let no_library = folder(&[("libnvidia-ml.so.1", "not one")]);
    let findings = examine(&SystemPaths {
        nvml: Some(no_library.path().join("libnvidia-ml.so.1")),
        ..places()
    });
    assert_eq!(find(&findings, "nvml").state, Status::Failed);
}

#[test]
fn a_gpu_that_cannot_be_reached_is_one_fault_and_leaves_the_others_as_they_are() {
    let handle_of_first = |code| FaultRule {
        gpu: Some(0),
        ..FaultRule::for_symbol("nvmlDeviceGetHandleBy*", code)
    };
    for rule in [
        handle_of_first(4),
        handle_of_first(15),
        FaultRule::lost(0, 0),
    ] {
        let _fake =
            Fake::play(&Scenario::from_boards(&[Board::T4, Board::A100]).with_fault(rule.clone()));
        let findings = examine(&places());
        let of_first: Vec<&Finding> = findings
            .iter()
            .filter(|finding| finding.id.starts_with("gpu.0."))
            .collect();
        assert_eq!(of_first.len(), 1, "{rule:?}: {of_first:?}");
        assert_eq!(of_first[0].id, "gpu.0.device");
        assert_eq!(of_first[0].state, Status::Failed, "{rule:?}");
        assert_eq!(find(&findings, "gpu.1.device").state, Status::Found);
        assert_eq!(find(&findings, "gpu.1.metrics").state, Status::Found);
    }
}

#[test]
fn an_image_starts_by_any_of_its_alternatives_and_on_every_gpu() {
    let v100_on = |driver| Scenario::from_boards(&[Board::V100]).on_driver(driver);
    let mixed = Scenario::from_boards(&[Board::V100, Board::Rtx3090]).on_driver("470.57.02");
    let v100_without_brand =
        v100_on("470.57.02").with_fault(FaultRule::for_symbol("nvmlDeviceGetBrand", 3));
    for (scenario, expected) in [
        (v100_on("470.57.02"), Status::Found),
        (v100_on("510.47.03"), Status::Failed),
        (v100_on("535.54.03"), Status::Found),
        (mixed, Status::Failed),
        (v100_without_brand, Status::Warning),
        (
            Scenario::from_boards(&[]).on_driver("535.54.03"),
            Status::Found,
        ),
    ] {
        let _fake = Fake::play(&scenario);
        let findings = examine(&SystemPaths {
            image: Some(CUDA_12_2.to_owned()),
            ..places()
        });
        let image = find(&findings, "cuda.image");
        assert_eq!(image.state, expected, "{scenario:?}: {}", image.detail);
    }
}

#[test]
fn a_framework_is_held_against_the_driver_with_a_toolkit_and_without() {
    let _fake = Fake::play(&Scenario::default().on_driver("510.47.03"));
    let toolkit = folder(&[("version.txt", "CUDA Version 11.6.2\n")]);
    for toolkits in [vec![], vec![toolkit.path().to_owned()]] {
        let has_toolkit = !toolkits.is_empty();
        let findings = examine(&SystemPaths {
            toolkits,
            frameworks: vec![
                ("torch".to_owned(), "2.6.0+cu124".to_owned()),
                ("jaxlib".to_owned(), "0.4.7+cu118".to_owned()),
            ],
            ..places()
        });
        let torch = find(&findings, "cuda.framework.torch.driver");
        assert_eq!(torch.state, Status::Failed);
        assert!(torch.detail.contains("12.4 needs driver 525"), "{torch:?}");
        let jaxlib = find(&findings, "cuda.framework.jaxlib.driver");
        assert_eq!(jaxlib.state, Status::Found);
        let of_toolkit = findings
            .iter()
            .any(|finding| finding.id == "cuda.framework.torch");
        assert_eq!(of_toolkit, has_toolkit);
    }
}

#[test]
fn a_cuda_that_nothing_is_known_of_is_a_warning() {
    let _fake = Fake::play(&Scenario::default());
    let toolkit = folder(&[("version.json", r#"{"cuda": {"version": "14.0.1"}}"#)]);
    let findings = examine(&SystemPaths {
        toolkits: vec![toolkit.path().to_owned()],
        ..places()
    });
    let driver = find(&findings, "cuda.driver");
    assert_eq!(driver.state, Status::Warning);
    assert!(driver.detail.contains("not known"), "{driver:?}");
}

#[test]
fn a_sensor_that_no_table_knows_names_the_command_that_measures_it() {
    let mut scenario = Scenario::default();
    scenario.gpus[0].architecture = Architecture::Maxwell;
    let _fake = Fake::play(&scenario);
    let findings = examine(&places());
    let sensor = find(&findings, "gpu.0.sensor");
    assert_eq!(sensor.state, Status::Warning);
    assert!(
        sensor.detail.contains("trace --interval 10ms"),
        "{sensor:?}"
    );
}
