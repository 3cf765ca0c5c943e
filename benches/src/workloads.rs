//! The workloads of the bench command, one module per family.
//!
//! Role: the list that the bench command runs; [`crate`] describes how to add a workload.

use crate::mnist::LazyImages;
use harness::program::TensorWorkload;
use harness::workload::{Selection, Task};
use std::rc::Rc;

pub mod attention;
pub mod batch_games;
pub mod bimatrix_equilibria;
pub mod bit_gemm;
pub mod cfr;
pub mod chain;
pub mod cluster;
pub mod conv;
pub mod conv_binary;
pub mod conv_gradients;
mod convergence;
pub mod functions;
pub mod infer_quant;
pub mod inverse_gaussian;
pub mod layer_norm;
pub mod matmul;
pub mod matmul_pair;
pub mod matmul_scale;
pub mod matrix_game;
pub mod moves;
pub mod normality;
pub mod products;
pub mod qem_fit;
pub mod quant_accuracy;
pub mod rows;
pub mod scans;
pub mod scatters;
pub mod similarity;
pub mod similarity_pairs;
pub mod small_eval;
pub mod softmax;
pub mod sorts;
pub mod train_mnist;
pub mod train_quant;
pub mod two_layer_net;

/// Libraries that are compared with a program of a single operation, in which a compiler of
/// programs has nothing to fuse.
const WITHOUT_COMPILER: &[&str] = &["numpy", "torch", "jax"];

/// Tasks of the quick selection: one size of each family that is measured in seconds, rivals
/// included.
const QUICK: [&str; 16] = [
    "matmul/5x784x10",
    "similarity-sum/256x500",
    "chain/4096x4096",
    "softmax/4096x1000",
    "scans/sum-axis1-4096x1000",
    "functions/exp-f32-1048576",
    "two-layer-net/64-1000-100-10",
    "conv-binary/14x14x256-3x3-w1a1-b1",
    "bit-gemm/512x2560x512",
    "qem-fit/conv16x8x5x5-k1..4",
    "ig-cdf/1000000",
    "ig-quantile/20000",
    "ig-normality/25",
    "matrix-game/100x100",
    "leduc-cfr/936x100",
    "bimatrix-equilibria/6x6",
];

/// Returns every task in order, at the sizes that are measured; the largest sizes only if there is
/// a hardware GPU. No images are loaded before a task that needs them is prepared.
#[must_use]
pub fn all(real_gpu: bool, images: &Rc<LazyImages>) -> Vec<Task> {
    let mut tasks: Vec<Task> = matmul::tasks(real_gpu, images).collect();
    tasks.extend([
        similarity::sum(similarity::SHAPE).task(),
        similarity::sum(similarity::SMALL).task(),
        similarity::all(similarity::SHAPE).task(),
        matmul_scale::program(1000).task(),
        matmul_pair::program(1000).task(),
        chain::program([4096, 4096]).task(),
        softmax::program([4096, 1000]).task(),
        layer_norm::program([4096, 1000]).task(),
        attention::program([8, 8, 256, 64]).task(),
    ]);
    tasks.extend(conv::LAYERS.map(|layer| conv::program(layer).task()));
    tasks.extend(conv_gradients::tasks());
    tasks.extend(products::tasks());
    tasks.extend(rows::programs(rows::SHAPE).map(TensorWorkload::task));
    tasks.extend(scans::programs(scans::SHAPES).map(TensorWorkload::task));
    tasks.extend(sorts::tasks(sorts::SHAPES));
    tasks.extend(scatters::tasks(scatters::LENS));
    tasks.extend(moves::tasks());
    tasks.extend(functions::tasks(functions::LEN));
    tasks.extend(small_eval::tasks());
    tasks.push(two_layer_net::task());
    tasks.extend(conv_binary::tasks());
    tasks.extend(bit_gemm::tasks());
    tasks.push(qem_fit::task());
    tasks.extend(similarity_pairs::tasks(real_gpu));
    tasks.extend(inverse_gaussian::Function::ALL.map(inverse_gaussian::Function::task));
    tasks.push(normality::task());
    tasks.push(batch_games::task());
    tasks.extend(cluster::tasks());
    tasks.extend(matrix_game::tasks());
    tasks.extend(cfr::tasks());
    tasks.extend(bimatrix_equilibria::tasks());
    tasks.extend(train_mnist::Net::ALL.map(|net| net.task(images)));
    tasks.extend(train_quant::tasks(images));
    tasks.extend(infer_quant::tasks(images));
    tasks.extend(quant_accuracy::tasks(&Rc::default()));
    let quick = |task: &&mut Task| QUICK.contains(&task.id.to_string().as_str());
    tasks
        .iter_mut()
        .filter(quick)
        .for_each(|task| task.level = Selection::Quick);
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_of_the_quick_selection_exists() {
        let tasks = all(false, &Rc::default());
        let quick = tasks.iter().filter(|task| task.level == Selection::Quick);
        assert_eq!(quick.count(), QUICK.len());
    }

    #[test]
    fn no_two_tasks_share_an_id() {
        let tasks = all(true, &Rc::default());
        let mut ids: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
        let n_tasks = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), n_tasks);
    }
}
