//! Kernels in which a workgroup computes a block of the output.
//!
//! Method: values that change only along the rows, or only along the columns, are computed once for
//! the block, `block_inner` terms at a time, and staged in workgroup memory. Each invocation then
//! computes a tile of elements. Every accumulator of the tile is a named variable: naga 30 stores
//! arrays that are indexed by a loop variable in memory, which is slower by a factor of 3 to 10.
//! Each element adds its terms in order, except by cooperative matrices. If no further term can
//! change any element of the block, the workgroup stops. A matrix product is a nest like any other,
//! with any prologue and epilogue; there is no emitter for GEMM alone. The bits of an element do
//! not depend on the sizes of blocks, so the tuner compares results by bits.
//!
//! ```text
//!  for start in (0..terms).step_by(block_inner)
//!      stage rows:    wg_va[term][row]       one slot per invocation and turn
//!      stage columns: wg_vb[term][col]
//!      barrier
//!      for term in 0..n_terms
//!          read thread_rows + thread_cols values, update thread_rows × thread_cols totals
//!      barrier
//! ```
//!
//! Source: Volkov and Demmel 2008, "Benchmarking GPUs to tune dense linear algebra".

mod matrices;

use tensor_core::ir::{IndexMap, LoopNest, Value};

use super::access::{self, WORD_BITS, bits};
use super::blocking::{Block, Roles};
use super::expression::{from_workgroup, to_workgroup, type_name, workgroup_type};
use super::statements::Statements;
use super::text::{plus, shifted, times};
use super::{contiguous, stored};

/// Prefixes of names for rows and columns.
const SIDES: [&str; 2] = ["row", "col"];

/// Writer of the statements of an invocation.
pub(super) struct Writer<'s, 'n, 'b> {
    to: &'s mut Statements<'n>,
    block: &'b Block,
    roles: Roles,
    /// Output elements along the rows and the columns.
    counts: [usize; 2],
}

/// Returns whether several invocations may write to one word of the output, in one workgroup or in
/// different workgroups. This happens if rows, or blocks within a row, do not end at a word
/// boundary.
pub(super) fn shares_words(nest: &LoopNest, block: &Block) -> bool {
    bits(nest.dtype()).is_some_and(|bits| {
        let per_word = (WORD_BITS / bits) as usize;
        let ends_within = |n_elements: usize| !n_elements.is_multiple_of(per_word);
        let has_neighbours = block.n_blocks_along(nest, 1) > 1;
        ends_within(block.count(nest, 1))
            || (has_neighbours && ends_within(block.tile.block_cols as usize))
    })
}

impl<'s, 'n, 'b> Writer<'s, 'n, 'b> {
    pub(super) fn new(to: &'s mut Statements<'n>, block: &'b Block) -> Self {
        Self {
            roles: Roles::new(to.nest, &to.placement),
            counts: [0, 1].map(|side| block.count(to.nest, side)),
            to,
            block,
        }
    }

    /// Declares the workgroup memory of the kernel.
    pub(super) fn memory(&mut self) {
        let (nest, tile) = (self.to.nest, &self.block.tile);
        for side in 0..2 {
            for &id in &self.roles.staged[side] {
                // An array per term rather than one long array: the compiler limits each index to
                // its array, and reads of several terms share the limited index of the second
                // array.
                let (vector, stride) = (self.vector_of(side, id), tile.stride(side));
                let terms = tile.block_inner;
                self.to.line(match self.block.matrices {
                    None => {
                        format!(
                            "var<workgroup> wg_v{id}: array<array<{vector}, {stride}>, {terms}>;"
                        )
                    }
                    Some(_) => self.halves(side, id),
                });
            }
        }
        if self.block.matrices.is_some() {
            self.matrix_memory();
        }
        if let Some(cells) = self.block.cells(nest) {
            let len = cells * tile.block_rows;
            self.to
                .line(format!("var<workgroup> wg_bits: array<u32, {len}>;"));
        }
        if self.may_stop() {
            self.to.line("var<workgroup> wg_open: atomic<u32>;");
            self.to.line("var<workgroup> wg_goes_on: u32;");
        }
    }

    fn may_stop(&mut self) -> bool {
        self.terms() > self.block.tile.block_inner as usize && self.to.is_fixed().is_some()
    }

    fn terms(&self) -> usize {
        self.to.nest.reduce_len()
    }

    /// Writes the body of the entry point.
    pub(super) fn body(&mut self) {
        let (nest, tile) = (self.to.nest, self.block.tile);
        let n_blocks = self.block.n_blocks(nest);
        self.to.line(match self.block.matrices {
            None => "let block = grid_workgroup(wid, n_workgroups);",
            // Matrices need uniform control flow, and for naga no result of a function is uniform.
            Some(_) => "let block = wid.y * n_workgroups.x + wid.x;",
        });
        self.to
            .line(format!("if (block >= {n_blocks}u) {{ return; }}"));
        let [_, width] = tile.threads();
        self.to.line(format!("let thread_row = lid.x / {width}u;"));
        self.to.line(format!("let thread_col = lid.x % {width}u;"));
        self.first_of_block();
        let extent = tile.thread().map(|side| side as usize);
        self.to.set_extent(extent);
        self.rows_and_cols();
        let outer = self.roles.outer.clone();
        self.values(&outer);
        match self.block.matrices {
            None => {
                self.to.totals();
                self.stages();
            }
            Some(matrices) => {
                self.matrices(matrices);
                self.stages();
                self.matrix_totals(matrices);
            }
        }
        self.to.reduced();
        let after: Vec<bool> = nest
            .epilogue()
            .iter()
            .zip(&outer)
            .map(|(is, before)| *is && !before)
            .collect();
        self.values(&after);
        match bits(nest.dtype()) {
            None => self.store(),
            Some(bits) => self.store_packed(bits),
        }
    }

    fn values(&mut self, which: &[bool]) {
        for (id, _) in which.iter().enumerate().filter(|(_, is)| **is) {
            if self.to.placement.is_written(self.to.nest, id) {
                self.to.value(id);
            }
        }
    }

    /// Writes the first row and column of the block, and the indices of the batch axes.
    fn first_of_block(&mut self) {
        let nest = self.to.nest;
        let [_, cols] = [0, 1].map(|side| self.block.n_blocks_along(nest, side));
        let [block_rows, block_cols] = self.block.tile.block();
        let rows = self.block.n_blocks_along(nest, 0);
        // Blocks are counted with columns fastest, then rows, then the batch.
        self.to.line(format!(
            "let first_row = block / {cols}u % {rows}u * {block_rows}u;"
        ));
        self.to
            .line(format!("let first_col = block % {cols}u * {block_cols}u;"));
        let batch = self.block.batch_axes(nest);
        self.indices(&batch, &format!("block / {}u", rows * cols), None);
    }

    /// Writes the indices of axes that are counted together in `count`, the last axis fastest:
    /// index = count / (product of later sizes) % size.
    fn indices(&mut self, axes: &[usize], count: &str, element: Option<usize>) {
        let sizes = self.to.nest.sizes();
        let mut below = 1;
        for (place, &axis) in axes.iter().enumerate().rev() {
            let size = sizes[axis];
            if size == 1 {
                self.to.stays(axis);
                continue;
            }
            let quotient = match below {
                1 => count.to_owned(),
                _ => format!("({count}) / {below}u"),
            };
            // The first axis needs no remainder, because `count` is in range.
            let index = match (place, below) {
                (0, _) => quotient,
                (_, 1) => format!("({quotient}) % {size}u"),
                _ => format!("{quotient} % {size}u"),
            };
            self.to.index(axis, element, &index);
            below *= size;
        }
    }

    /// Writes the position along a side of an element of the tile. A position past the end of the
    /// output is clamped to the last element; it is computed but not stored.
    fn position(&mut self, side: usize, element: usize, position: &str) {
        let (name, last) = (SIDES[side], self.counts[side] - 1);
        self.to.line(format!("let {name}_{element} = {position};"));
        let inside = match self.is_partial(side) {
            true => format!("min({name}_{element}, {last}u)"),
            false => format!("{name}_{element}"),
        };
        let axes = self.block.sides[side].clone();
        self.indices(&axes, &inside, Some(element));
    }

    fn is_partial(&self, side: usize) -> bool {
        let size = self.block.tile.block()[side] as usize;
        !self.counts[side].is_multiple_of(size)
    }

    /// Writes the rows and columns of the invocation's tile. Its rows are adjacent. Its columns are
    /// adjacent within a vector, and the vectors of all invocations alternate, so that neighbouring
    /// invocations access neighbouring addresses. With `vector` = 2 and three invocations t0, t1,
    /// t2 along a row:
    ///
    /// ```text
    ///  column:  0  1 | 2  3 | 4  5 | 6  7 | 8  9 | 10 11
    ///  owner:   t0     t1     t2     t0     t1     t2
    /// ```
    fn rows_and_cols(&mut self) {
        let tile = self.block.tile;
        for row in 0..tile.thread_rows {
            let own = times("thread_row", tile.thread_rows);
            let position = plus(&format!("first_row + {own}"), row);
            self.position(0, row as usize, &position);
        }
        let (vector, [_, width]) = (tile.vector(1), tile.threads());
        for col in 0..tile.thread_cols {
            // Skips whole rounds of `vector * width` columns, then counts within the vector.
            let before = col / vector * vector * width + col % vector;
            let own = times("thread_col", vector);
            let position = plus(&format!("first_col + {own}"), before);
            self.position(1, col as usize, &position);
        }
    }

    /// Writes the loop over stages of `block_inner` terms.
    ///
    /// The values of the next stage are not read in advance. AMD's compiler moves such reads behind
    /// the arithmetic, because the buffers are read-only, and the variables for the values cost 24
    /// registers with tiles of 8 × 8.
    fn stages(&mut self) {
        let (terms, inner) = (self.terms(), self.block.tile.block_inner as usize);
        self.to.open(format!(
            "for (var start = 0u; start < {terms}u; start += {inner}u) {{"
        ));
        for side in 0..2 {
            if !self.roles.staged[side].is_empty() {
                self.stage(side);
            }
        }
        self.to.line("workgroupBarrier();");
        match self.block.matrices {
            None => self.fold_stage(),
            Some(matrices) => self.multiply_stage(matrices),
        }
        // The next stage overwrites what this stage reads. The early exit has barriers of its own.
        if self.may_stop() {
            self.stop();
        } else {
            self.to.line("workgroupBarrier();");
        }
        self.to.close();
    }

    /// Stages the values that change along one side only, for the whole block and the terms of a
    /// stage. A slot is one vector of one term; slots are distributed over the invocations in
    /// turns.
    fn stage(&mut self, side: usize) {
        let tile = self.block.tile;
        let (vector, inner, threads) = (tile.vector(side), tile.block_inner, tile.invocations());
        let n_groups = tile.block()[side] / vector;
        let n_slots = inner * n_groups;
        let walks_terms = self.walks_terms(side);
        let mut extent = [1, 1];
        extent[side] = vector as usize;
        self.to.set_extent(extent);
        for turn in 0..n_slots.div_ceil(threads) {
            let first = turn * threads;
            if first + threads > n_slots {
                self.to
                    .open(format!("if (lid.x + {first}u < {n_slots}u) {{"));
            } else {
                self.to.open("{");
            }
            self.to
                .line(format!("let slot = {};", plus("lid.x", first)));
            // Neighbouring slots are neighbouring terms or neighbouring groups, whichever is
            // contiguous in memory, so that global reads are coalesced.
            let (term, group) = match walks_terms {
                true => (format!("slot % {inner}u"), format!("slot / {inner}u")),
                false => (format!("slot / {n_groups}u"), format!("slot % {n_groups}u")),
            };
            self.to.line(format!("let group = {group};"));
            self.to.line(format!("let term = {term};"));
            self.term("start + term");
            for element in 0..vector {
                let own = times("group", vector);
                let position = format!("first_{} + {own}", SIDES[side]);
                let position = plus(&position, element);
                self.position(side, element as usize, &position);
            }
            let before = self.roles.before[side].clone();
            self.values(&before);
            for id in self.roles.staged[side].clone() {
                let (dtype, mut elements) = (self.to.nest.dtypes[id], Vec::new());
                self.to.each(id, |to| {
                    elements.push(to_workgroup(dtype, &to.local("v", id)));
                });
                if self.block.matrices.is_some() {
                    self.stage_halves(side, id, &elements);
                    continue;
                }
                let value = match &elements[..] {
                    [one] => one.clone(),
                    _ => format!("{}({})", self.vector_of(side, id), elements.join(", ")),
                };
                self.to.line(format!("wg_v{id}[term][group] = {value};"));
            }
            self.to.close();
        }
        self.to.set_extent(tile.thread().map(|side| side as usize));
    }

    /// Returns whether a staged input is contiguous along the terms. Neighbouring invocations then
    /// read neighbouring terms.
    fn walks_terms(&self, side: usize) -> bool {
        let nest = self.to.nest;
        let last = nest.domain.len() + nest.reduce.len() - 1;
        let read = nest.values.iter().zip(&self.roles.before[side]);
        let mut maps = read.filter_map(|(value, is_read)| match value {
            Value::Load { map, .. } if *is_read => Some(map),
            _ => None,
        });
        maps.any(|map| map.stride(last).unsigned_abs() == 1)
    }

    /// Writes the indices of the reduced axes for a term. A term past the last is clamped to the
    /// last, and not added.
    fn term(&mut self, term: &str) {
        let (terms, n_domain) = (self.terms(), self.to.nest.domain.len());
        let axes: Vec<usize> = (n_domain..self.to.nest.sizes().len()).collect();
        let inside = match self.has_rest() {
            true => format!("min({term}, {}u)", terms - 1),
            false => term.to_owned(),
        };
        self.indices(&axes, &inside, None);
    }

    fn has_rest(&self) -> bool {
        !self
            .terms()
            .is_multiple_of(self.block.tile.block_inner as usize)
    }

    /// Writes the terms of a stage: a loop that is unrolled in part, or all terms without a loop.
    fn fold_stage(&mut self) {
        let (terms, inner) = (self.terms(), self.block.tile.block_inner);
        let together = self.terms_together();
        let n_terms = match self.has_rest() {
            true => format!("min({inner}u, {terms}u - start)"),
            false => format!("{inner}u"),
        };
        if together == inner && !self.has_rest() {
            self.to.open("{");
            self.to.line("let term = 0u;");
        } else {
            self.to.line(format!("let n_terms = {n_terms};"));
            self.to.open(format!(
                "for (var term = 0u; term < n_terms; term += {together}u) {{"
            ));
        }
        for term in 0..together {
            self.to.open("{");
            self.fold_term(term);
            self.to.close();
        }
        self.to.close();
    }

    /// Returns the number of unrolled terms: a power of two that divides both the number of terms
    /// and `block_inner`, and that keeps the text short.
    fn terms_together(&self) -> u32 {
        const STATEMENTS: usize = 1024;
        let [rows, cols] = self.block.tile.thread();
        let n_inner = self.roles.inner.iter().filter(|is| **is).count().max(1);
        let statements = n_inner * (rows * cols) as usize;
        let fits = |n: &u32| {
            let n = *n as usize;
            let divides = self.terms().is_multiple_of(n)
                && (self.block.tile.block_inner as usize).is_multiple_of(n);
            n * statements <= STATEMENTS && divides
        };
        let most = self.block.tile.block_inner;
        let numbers = (0..=most.ilog2()).rev().map(|log| 1 << log);
        numbers.into_iter().find(fits).unwrap_or(1)
    }

    fn fold_term(&mut self, term: u32) {
        let nest = self.to.nest;
        let n_domain = nest.domain.len();
        let inner = self.roles.inner.clone();
        // The indices are written only if a value of the loop reads them.
        let on_terms = |map: &IndexMap| map.strides[n_domain..].iter().any(|&stride| stride != 0);
        let values = nest.values.iter().zip(&inner);
        let reads_terms = |(value, is): (&Value, &bool)| *is && value.maps().any(on_terms);
        if values.into_iter().any(reads_terms) {
            self.term(&plus("start + term", term));
        }
        for side in 0..2 {
            for id in self.roles.staged[side].clone() {
                self.unstage(side, id, term);
            }
        }
        self.values(&inner);
        self.to.folds();
    }

    /// Reads a staged value for each row, or each column, of the invocation's tile.
    fn unstage(&mut self, side: usize, id: usize, term: u32) {
        let tile = self.block.tile;
        let (vector, [_, width]) = (tile.vector(side), tile.threads());
        for group in 0..tile.thread()[side] / vector {
            // Rows of an invocation are adjacent vectors; its column vectors are `width` vectors
            // apart.
            let at = match side {
                0 => plus(&times("thread_row", tile.thread_rows / vector), group),
                _ => plus("thread_col", group * width),
            };
            let row = plus("term", term);
            let name = format!("s{id}_{}_{group}", SIDES[side]);
            self.to.line(format!("let {name} = wg_v{id}[{row}][{at}];"));
            for lane in 0..vector {
                let element = group * vector + lane;
                let lane = match vector {
                    1 => String::new(),
                    _ => format!("[{lane}]"),
                };
                let dtype = self.to.nest.dtypes[id];
                let value = from_workgroup(dtype, &format!("{name}{lane}"));
                let dtype = type_name(dtype);
                self.to
                    .line(format!("let v{id}_{element}: {dtype} = {value};"));
            }
        }
    }

    /// Writes the early exit of the loop: taken if the totals of all elements of the block can no
    /// longer change. `workgroupUniformLoad` makes the branch uniform, which the barriers of the
    /// loop require.
    fn stop(&mut self) {
        let Some(fixed) = self.to.is_fixed() else {
            return;
        };
        self.to
            .line("if (lid.x == 0u) { atomicStore(&wg_open, 0u); }");
        self.to.line("workgroupBarrier();");
        self.to
            .line(format!("if (!({fixed})) {{ atomicStore(&wg_open, 1u); }}"));
        self.to.line("workgroupBarrier();");
        self.to
            .line("if (lid.x == 0u) { wg_goes_on = atomicLoad(&wg_open); }");
        self.to
            .line("if (workgroupUniformLoad(&wg_goes_on) == 0u) { break; }");
    }

    /// Writes the elements of the tile to the output.
    fn store(&mut self) {
        let result = self.to.nest.result().0;
        let map = contiguous(&self.to.nest.domain);
        let partial = [0, 1].map(|side| self.is_partial(side));
        let counts = self.counts;
        self.to.each_element(|to, at| {
            // Only sides that the blocks do not divide need a guard.
            let sides = (0..2).filter(|&side| partial[side]);
            let inside: Vec<String> = sides
                .map(|side| format!("({}_{} < {}u)", SIDES[side], at[side], counts[side]))
                .collect();
            let position = to.in_chunk(&access::position(&map, &to.names()));
            let write = format!("out[{position}] = {};", to.local("v", result));
            match &inside[..] {
                [] => to.line(write),
                // `&` instead of `&&`, which becomes a branch for each element.
                _ => to.line(format!("if ({}) {{ {write} }}", inside.join(" & "))),
            }
        });
    }

    /// Packs the elements of the block into words, and writes the words. If rows do not end at word
    /// boundaries, two invocations may share a word, and each changes only its own bits.
    fn store_packed(&mut self, bits: u32) {
        let (nest, tile) = (self.to.nest, self.block.tile);
        let cells = self.block.cells(nest).unwrap_or(1);
        self.pack(bits, cells);
        self.to.line("workgroupBarrier();");
        let (per_word, packed) = (WORD_BITS / bits, self.block.packed(bits));
        let words = tile.block_cols.div_ceil(per_word);
        let [rows, cols] = self.counts;
        self.to.open(format!(
            "for (var slot = lid.x; slot < {}u; slot += {}u) {{",
            words * tile.block_rows,
            tile.invocations()
        ));
        self.to.line(format!("let in_row = slot / {words}u;"));
        self.to
            .line(format!("let in_col = slot % {words}u * {per_word}u;"));
        self.to.line("let col = first_col + in_col;");
        self.to.open(format!(
            "if (first_row + in_row < {rows}u && col < {cols}u) {{"
        ));
        self.position(0, 0, "first_row + in_row");
        self.to.line("var bits = 0u;");
        for cell in 0..per_word / packed {
            let place = plus(&format!("in_row * {cells}u + in_col / {packed}u"), cell);
            let own = shifted(&format!("wg_bits[{place}]"), cell * packed * bits);
            let add = format!("bits |= {own};");
            // A narrow block ends before the end of the word.
            if (cell + 1) * packed > tile.block_cols {
                break;
            }
            self.to.line(add);
        }
        let mut map = contiguous(&nest.domain);
        let names = self.to.names_at_first_col();
        // The position of the row: its column axes are at the start of their loops, and `col` is
        // added below. A start of 0 needs no term.
        for &axis in &self.block.sides[1] {
            if names[axis] == "0i" {
                map.strides[axis] = 0;
            }
        }
        let row = access::position(&map, &names);
        let row = self.to.in_chunk(&row);
        self.to
            .line(format!("let first = bitcast<u32>({row}) + col;"));
        if shares_words(nest, self.block) {
            self.merge_word(bits);
        } else {
            self.to.line(format!("out[first / {per_word}u] = bits;"));
        }
        self.to.close();
        self.to.close();
    }

    /// Packs the tile's elements into workgroup memory, `packed` neighbours per word. The layout is
    /// `wg_bits[row * cells + col / packed]`, with rows and columns of the block.
    fn pack(&mut self, bits: u32, cells: u32) {
        let tile = self.block.tile;
        let (packed, vector, [_, width]) =
            (self.block.packed(bits), tile.vector(1), tile.threads());
        let (dtype, result) = (self.to.nest.dtype(), self.to.nest.result().0);
        for row in 0..tile.thread_rows {
            for col in (0..tile.thread_cols).step_by(packed as usize) {
                let parts = (0..packed).map(|n| {
                    let element = [row, col + n].map(|element| element as usize);
                    let name = self.to.local_at("v", result, element);
                    shifted(&stored(dtype, &name), n * bits)
                });
                let value = parts.collect::<Vec<_>>().join(" | ");
                // The same column order as in `rows_and_cols`, counted in packed groups.
                let before = (col / vector * vector * width + col % vector) / packed;
                let own_row = plus(&times("thread_row", tile.thread_rows), row);
                let own_col = plus(&times("thread_col", vector / packed), before);
                let at = format!("({own_row}) * {cells}u + {own_col}");
                self.to.line(format!("wg_bits[{at}] = {value};"));
            }
        }
    }

    /// Writes `bits` at the element `first`, which may start within a word and extend into the next
    /// word (lowest bit on the left):
    ///
    /// ```text
    ///  word       | ......bbbbbb |     bits << shift
    ///  word + 1   | bbb......... |     bits >> (32 - shift)
    /// ```
    fn merge_word(&mut self, bits: u32) {
        let (per_word, cols) = (WORD_BITS / bits, self.counts[1]);
        // Limited by the end of the row and the end of the block; the next block writes the rest of
        // the word.
        let in_block = self.block.tile.block_cols;
        self.to.line(format!(
            "let n_own = min(min({cols}u - col, {in_block}u - in_col), {per_word}u);"
        ));
        self.to.line(format!(
            "let mask = select((1u << (n_own * {bits}u)) - 1u, 0xffffffffu, n_own == {per_word}u);"
        ));
        self.to.line(format!("let word = first / {per_word}u;"));
        self.to
            .line(format!("let shift = first % {per_word}u * {bits}u;"));
        self.to.line("atomicAnd(&out[word], ~(mask << shift));");
        self.to
            .line("atomicOr(&out[word], (bits & mask) << shift);");
        // The remainder avoids a shift by 32, whose result WGSL does not define; `shift > 0u` then
        // excludes the case.
        self.to.line("let above = (32u - shift) % 32u;");
        self.to.open("if (shift > 0u && (mask >> above) != 0u) {");
        self.to
            .line("atomicAnd(&out[word + 1u], ~(mask >> above));");
        self.to
            .line("atomicOr(&out[word + 1u], (bits & mask) >> above);");
        self.to.close();
    }

    fn vector_of(&self, side: usize, id: usize) -> String {
        let dtype = workgroup_type(self.to.nest.dtypes[id]);
        match self.block.tile.vector(side) {
            1 => dtype.to_owned(),
            width => format!("vec{width}<{dtype}>"),
        }
    }
}
