//! Source text, indented by its braces.

/// Returns the expression `term + number`, as `u32`.
pub(super) fn plus(term: &str, number: u32) -> String {
    match number {
        0 => term.to_owned(),
        _ => format!("{term} + {number}u"),
    }
}

/// Returns the expression `name * number`, as `u32`.
pub(super) fn times(name: &str, number: u32) -> String {
    match number {
        1 => name.to_owned(),
        _ => format!("{name} * {number}u"),
    }
}

/// Returns the expression `name << n_bits`.
pub(super) fn shifted(name: &str, n_bits: u32) -> String {
    match n_bits {
        0 => name.to_owned(),
        _ => format!("({name} << {n_bits}u)"),
    }
}

/// Text that is written line by line.
#[derive(Debug, Default)]
pub(super) struct Text {
    text: String,
    depth: usize,
}

impl Text {
    /// Adds a line.
    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if !line.is_empty() {
            self.text.extend(std::iter::repeat_n("    ", self.depth));
            self.text.push_str(line);
        }
        self.text.push('\n');
    }

    /// Adds a line that ends in an opening brace, and indents the following lines.
    pub(super) fn open(&mut self, line: impl AsRef<str>) {
        self.line(line);
        self.depth += 1;
    }

    /// Closes the last brace.
    pub(super) fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.line("}");
    }

    /// Returns the whole text.
    pub(super) fn finish(self) -> String {
        self.text
    }
}
