//! Products in blocks by cooperative matrices.
//!
//! Method: a nest that sums products of `f16` stages its factors as halves, zero after the last
//! term. The subgroups of a workgroup divide the block among themselves; each multiplies its
//! rectangle of matrices and keeps the sums, in `f32`, in matrices of its own. In the end all sums
//! go through workgroup memory to the invocations that compute the elements' epilogue and store
//! them, as in every kernel in blocks.
//!
//! ```text
//!  for start in (0..terms).step_by(block_inner)
//!      stage halves:  wg_va[term][row], wg_vb[term][col]
//!      barrier
//!      for term in (0..block_inner).step_by(side)
//!          load matrices of rows (A) and of columns (B), c += A × B for each pair
//!      barrier
//!  store c in wg_totals, barrier, read the totals of the own elements
//! ```
//!
//! Accuracy: a product of two halves is exact in `f32`. The order in which the hardware adds the
//! terms of a matrix, and how it rounds between the additions, is unknown; llvmpipe is within the
//! bound of a sum.
//! Source: the Vulkan extension `VK_KHR_cooperative_matrix`, which wgpu calls
//! `EXPERIMENTAL_COOPERATIVE_MATRIX`.

use super::Writer;
use crate::nest::blocking::Matrices;
use crate::nest::text::plus;

impl Writer<'_, '_, '_> {
    /// Returns the declaration of the staged halves of a factor. Halves of a term are adjacent.
    pub(super) fn halves(&self, side: usize, id: usize) -> String {
        let len = self.block.tile.block_inner * self.block.half_stride(side);
        format!("var<workgroup> wg_v{id}: array<f16, {len}>;")
    }

    /// Declares the memory for the sums of a block.
    pub(super) fn matrix_memory(&mut self) {
        let len = self.block.tile.block_rows * self.block.total_stride();
        self.to
            .line(format!("var<workgroup> wg_totals: array<f32, {len}>;"));
    }

    /// Stages the elements of a vector as halves.
    pub(super) fn stage_halves(&mut self, side: usize, id: usize, elements: &[String]) {
        let stride = self.block.half_stride(side);
        let vector = elements.len();
        self.to.line(format!(
            "let place_{id} = term * {stride}u + group * {vector}u;"
        ));
        for (element, value) in (0..).zip(elements) {
            // The loop over matrices has no end within a stage, so later terms must be zero.
            let half = match self.has_rest() {
                true => {
                    let terms = self.terms();
                    format!("select(0.0h, f16({value}), start + term < {terms}u)")
                }
                false => format!("f16({value})"),
            };
            let at = plus(&format!("place_{id}"), element);
            self.to.line(format!("wg_v{id}[{at}] = {half};"));
        }
    }

    /// Writes the place of the subgroup's part in the block, and its matrices of sums.
    pub(super) fn matrices(&mut self, matrices: Matrices) {
        let [team_rows, team_cols] = matrices.teams;
        let [rows, cols] = matrices.part(&self.block.tile);
        let n_teams = team_rows * team_cols;
        self.to.line(format!("let team = subgroup % {n_teams}u;"));
        self.to
            .line(format!("let team_row = team / {team_cols}u * {rows}u;"));
        self.to
            .line(format!("let team_col = team % {team_cols}u * {cols}u;"));
        let side = matrices.side;
        for [row, col] in self.places(matrices) {
            self.to
                .line(format!("var c_{row}_{col}: coop_mat{side}x{side}<f32, C>;"));
        }
    }

    /// Returns the row and column of each matrix of a subgroup's part, in matrices.
    fn places(&self, matrices: Matrices) -> Vec<[u32; 2]> {
        let [rows, cols] = matrices.part(&self.block.tile);
        let side = matrices.side;
        let of_row = |row| (0..cols / side).map(move |col| [row, col]);
        (0..rows / side).flat_map(of_row).collect()
    }

    /// Writes the products of a stage.
    pub(super) fn multiply_stage(&mut self, matrices: Matrices) {
        let (side, inner) = (matrices.side, self.block.tile.block_inner);
        let part = matrices.part(&self.block.tile);
        let strides = [0, 1].map(|side| self.block.half_stride(side));
        let staged = [0, 1].map(|side| self.roles.staged[side].clone());
        self.to.open(format!(
            "for (var term = 0u; term < {inner}u; term += {side}u) {{"
        ));
        // The halves of a term are adjacent: columns of the matrix A, rows of the matrix B.
        for (at, [load, role, first]) in [
            ["coopLoad", "A", "team_row"],
            ["coopLoadT", "B", "team_col"],
        ]
        .into_iter()
        .enumerate()
        {
            let (stride, name) = (strides[at], role.to_lowercase());
            for id in &staged[at] {
                for number in 0..part[at] / side {
                    let place = plus(&format!("term * {stride}u + {first}"), number * side);
                    self.to.line(format!(
                        "let {name}_{number} = {load}<coop_mat{side}x{side}<f16, {role}>>\
                         (&wg_v{id}[{place}], {stride}u);"
                    ));
                }
            }
        }
        for [row, col] in self.places(matrices) {
            self.to.line(format!(
                "c_{row}_{col} = coopMultiplyAdd(a_{row}, b_{col}, c_{row}_{col});"
            ));
        }
        self.to.close();
    }

    /// Writes the sums to workgroup memory, and reads those of the invocation's elements.
    pub(super) fn matrix_totals(&mut self, matrices: Matrices) {
        let (side, stride) = (matrices.side, self.block.total_stride());
        for [row, col] in self.places(matrices) {
            let own_row = plus("team_row", row * side);
            let own_col = plus("team_col", col * side);
            self.to.line(format!(
                "coopStoreT(c_{row}_{col}, &wg_totals[({own_row}) * {stride}u + {own_col}], {stride}u);"
            ));
        }
        self.to.line("workgroupBarrier();");
        for (id, _) in self.to.reductions() {
            self.to.each(id.0, |to| {
                let total = to.local("total", id.0);
                let [row, col] = to.element().map(|element| element.to_string());
                to.line(format!(
                    "let {total} = wg_totals[(row_{row} - first_row) * {stride}u + col_{col} - first_col];"
                ));
            });
        }
    }
}
