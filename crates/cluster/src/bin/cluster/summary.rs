//! The results of a command, as text and as JSON.

use std::time::Duration;

use cluster::{Cluster, Machine, Mapped, Traffic};
use serde_json::{Map, Value, json};

use super::options::Common;
use super::trace::TotalEnergy;

/// The results of a command.
#[derive(Debug)]
pub(super) struct Summary {
    /// Set if no task failed.
    is_good: bool,
    /// Names and values.
    numbers: Vec<(&'static str, Value)>,
    /// A table: the names of its columns, and its rows.
    table: Option<(Vec<&'static str>, Vec<Vec<Value>>)>,
}

impl Summary {
    pub(super) fn new() -> Self {
        Self {
            is_good: true,
            numbers: vec![],
            table: None,
        }
    }

    /// Adds a number. The name ends with the unit, if there is one, as in `elapsed_s`.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.numbers.push((name, value.into()));
        self
    }

    /// Adds the times and the number of tasks of a job.
    pub(super) fn with_times<R>(self, mapped: &Mapped<R>) -> Self {
        let elapsed = mapped.elapsed.as_secs_f64();
        let working = mapped.working.iter().map(Duration::as_secs_f64);
        let busy = working.sum::<f64>() / (elapsed * mapped.working.len() as f64);
        let idle = mapped.coordinator_idle.as_secs_f64() / elapsed;
        let communication = mapped.traffic.elapsed.as_secs_f64() / elapsed;
        self.with("resumed_tasks", mapped.n_resumed)
            .with("elapsed_s", elapsed)
            .with("share_working", busy)
            .with("share_coordinator_idle", idle)
            .with("share_communication", communication)
    }

    /// Adds the predicted times for the machines of the command line.
    pub(super) fn with_predictions(
        self,
        common: &Common,
        predict: impl Fn(&Machine) -> Duration,
    ) -> Self {
        let machines = common.machines();
        let times = machines.map(|machine| {
            json!({
                "ranks": machine.n_ranks,
                "cores": machine.n_cores,
                "elapsed_s": predict(&machine).as_secs_f64(),
            })
        });
        let times: Vec<Value> = times.collect();
        match times.is_empty() {
            true => self,
            false => self.with("predictions", times),
        }
    }

    /// Adds the messages of rank 0.
    pub(super) fn with_traffic(self, traffic: Traffic) -> Self {
        self.with("bytes_sent_by_rank_0", traffic.bytes_sent)
            .with("messages_sent_by_rank_0", traffic.messages_sent)
    }

    /// Adds the energy of all hosts, if it is known.
    pub(super) fn with_energy(self, energy: Option<TotalEnergy>) -> Self {
        match energy {
            None => self,
            Some(energy) => self
                .with("energy_j", energy.joules)
                .with("energy_low_j", energy.interval[0])
                .with("energy_high_j", energy.interval[1]),
        }
    }

    pub(super) fn with_table(self, columns: Vec<&'static str>, rows: Vec<Vec<Value>>) -> Self {
        Self {
            table: Some((columns, rows)),
            ..self
        }
    }

    /// Sets whether all tasks succeeded.
    pub(super) fn with_outcome(self, is_good: bool) -> Self {
        Self { is_good, ..self }
    }

    pub(super) fn is_good(&self) -> bool {
        self.is_good
    }

    /// Returns all numbers by their names.
    fn numbers(&self, cluster: &Cluster) -> Map<String, Value> {
        let mut numbers = Map::new();
        let hosts: std::collections::BTreeSet<&String> = cluster
            .members()
            .iter()
            .map(|member| &member.host)
            .collect();
        for (name, value) in &self.numbers {
            numbers.insert((*name).to_owned(), value.clone());
        }
        numbers.insert("ranks".to_owned(), json!(cluster.n_ranks()));
        numbers.insert("hosts".to_owned(), json!(hosts.len()));
        numbers
    }

    pub(super) fn json(&self, cluster: &Cluster) -> String {
        let mut object = self.numbers(cluster);
        object.insert("mpi".to_owned(), json!(cluster::library()));
        if let Some((columns, rows)) = &self.table {
            let rows = rows.iter().map(|row| {
                let pairs = columns.iter().zip(row);
                let pairs = pairs.map(|(name, value)| ((*name).to_owned(), value.clone()));
                Value::Object(pairs.collect())
            });
            object.insert("rows".to_owned(), rows.collect());
        }
        format!("{}\n", Value::Object(object))
    }

    pub(super) fn text(&self, cluster: &Cluster) -> String {
        let mut text = String::new();
        if let Some((columns, rows)) = &self.table {
            let names = columns.iter().map(|name| (*name).to_owned()).collect();
            let rows = rows.iter().map(|row| row.iter().map(shown).collect());
            let lines: Vec<Vec<String>> = [names].into_iter().chain(rows).collect();
            let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
            let widths: Vec<usize> = (0..columns.len()).filter_map(width).collect();
            for line in &lines {
                let cells = line.iter().zip(&widths);
                let cells: Vec<String> = cells
                    .map(|(cell, &width)| format!("{cell:<width$}"))
                    .collect();
                text += cells.join("  ").trim_end();
                text.push('\n');
            }
            text.push('\n');
        }
        for (name, value) in self.numbers(cluster) {
            text += &format!("{name:<28}{}\n", shown(&value));
        }
        text
    }
}

/// Returns a value as text; floats with four digits.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            if number != 0.0 && !(1e-3..1e6).contains(&number.abs()) {
                format!("{number:.3e}")
            } else {
                format!("{number:.4}")
            }
        }
        other => other.to_string(),
    }
}
