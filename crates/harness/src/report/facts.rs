//! Facts about the machine and its adapters, from the record.

use std::fmt::Write;

use crate::comparison::Place;
use crate::implementation::{BIT_PRODUCT_UNIT, FLOP_UNIT};
use crate::record::{AdapterFacts, AdapterPeaks, Record};
use charts::Ink;
use charts::escape;
use charts::units;

/// Returns the names of all adapters of a record, in the order of first mention. The position of a
/// name determines its colour.
pub(super) fn adapter_names(record: &Record) -> Vec<String> {
    let described = record.machine.adapters.iter().map(|adapter| &adapter.name);
    let measured = record.machine.peaks.adapters.keys();
    let used = record.rows.iter().filter_map(|row| row.adapter.as_ref());
    let mut names: Vec<String> = Vec::new();
    for name in described.chain(measured).chain(used) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// Returns the line below the title: date, commit, data, and a warning if the run was not finished
/// or disturbed.
pub(super) fn summary(record: &Record) -> String {
    let machine = &record.machine;
    let mut parts = vec![machine.date.replace('T', " ").replace('Z', " UTC")];
    parts.extend(
        machine
            .commit
            .as_ref()
            .map(|commit| format!("commit {commit}")),
    );
    parts.extend(
        machine
            .data_origin
            .as_ref()
            .map(|origin| format!("data: {origin}")),
    );
    if record.finished == Some(false) {
        parts.push("not finished: the run was interrupted".to_owned());
    }
    parts.extend(
        machine
            .disturbed
            .as_ref()
            .map(|why| format!("disturbed: {why}")),
    );
    parts.retain(|part| !part.is_empty());
    format!("<p class=\"lead\">{}</p>\n", escape(&parts.join(" · ")))
}

/// Returns the table of devices with their measured peaks, and the facts of the machine.
pub(super) fn machine(record: &Record, adapters: &[String]) -> String {
    let machine = &record.machine;
    let peaks = &machine.peaks;
    let cpu = peaks.cpu();
    let memory = machine
        .memory_bytes
        .map(|bytes| format!(", {}", units::bytes(bytes as f64)));
    let about = format!("{} threads{}", machine.cores, memory.unwrap_or_default());
    let mut rows = device(Ink::Cpu, &machine.cpu, &about, &cpu);
    for name in adapters {
        let facts = machine
            .adapters
            .iter()
            .find(|adapter| adapter.name == *name);
        let about = facts.map(
            |AdapterFacts {
                 backend,
                 driver,
                 device_type,
                 ..
             }| {
                let parts = [device_type, backend, driver].map(String::as_str);
                let known: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                known.join(", ")
            },
        );
        let peaks = peaks.adapters.get(name).copied().unwrap_or_default();
        let ink = Place::Adapter(name.clone()).ink(adapters);
        rows += &device(ink, name, &about.unwrap_or_default(), &peaks);
    }
    format!(
        "<section id=\"machine\">\n<h2>Machine</h2>\n<div class=\"wide\"><table class=\"devices\">\n<thead><tr>\
         <th scope=\"col\">device</th><th scope=\"col\"></th>\
         <th scope=\"col\" class=\"number\">measured peak</th>\
         <th scope=\"col\" class=\"number\">products of bits</th>\
         <th scope=\"col\" class=\"number\">measured copy</th></tr></thead>\n<tbody>\n{rows}</tbody>\n\
         </table></div>\n{}</section>\n",
        details(record)
    )
}

fn device(ink: Ink, name: &str, about: &str, peaks: &AdapterPeaks) -> String {
    let absent = || units::ABSENT.to_owned();
    let flops = peaks.flops.map(|rate| units::rate(rate, FLOP_UNIT));
    let bits = peaks.bit_products;
    let bits = bits.map(|rate| units::rate(rate, BIT_PRODUCT_UNIT));
    let copy = peaks.copy_bytes_per_s;
    let copy = copy.map(|bytes| units::rate(bytes, "B/s"));
    format!(
        "<tr><th scope=\"row\"><i class=\"swatch swatch-{}\"></i>{}</th><td>{}</td>\
         <td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>\n",
        ink.name(),
        escape(name),
        escape(about),
        flops.unwrap_or_else(absent),
        bits.unwrap_or_else(absent),
        copy.unwrap_or_else(absent)
    )
}

/// Returns rarely needed facts, in a collapsed element.
fn details(record: &Record) -> String {
    let machine = &record.machine;
    let mut list = String::new();
    let mut fact = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(list, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
    };
    fact("system", format!("{} {}", machine.os, machine.arch).trim());
    fact("CPU features", &machine.cpu_features.join(", "));
    let of_set =
        |(set, rate): (&String, &f64)| format!("{set} {}", units::rate(*rate, BIT_PRODUCT_UNIT));
    let of_sets: Vec<String> = machine.peaks.cpu_bit_products.iter().map(of_set).collect();
    fact("peaks of products of bits", &of_sets.join(", "));
    let rivals = machine.rivals.iter();
    let rivals: Vec<String> = rivals
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    fact("rivals", &rivals.join(", "));
    fact("compiler", machine.rustc.as_deref().unwrap_or_default());
    for adapter in &machine.adapters {
        let limits = adapter
            .limits
            .iter()
            .map(|(name, value)| format!("{name} {value}"));
        let limits: Vec<String> = limits.collect();
        fact(&format!("limits of {}", adapter.name), &limits.join(", "));
        for (there, word) in [(true, "features"), (false, "missing features")] {
            let with = adapter
                .features
                .iter()
                .filter(|(_, value)| **value == there);
            let names: Vec<&str> = with.map(|(name, _)| name.as_str()).collect();
            fact(&format!("{word} of {}", adapter.name), &names.join(", "));
        }
    }
    if list.is_empty() {
        return list;
    }
    format!("<details><summary>Details</summary>\n<dl>\n{list}</dl>\n</details>\n")
}
