//! `all_reduce`: bits, forms, errors.

use std::fs;

use cluster::Error;
use tensor_core::Tensor;
use tensor_core::rng::Philox;

use crate::job::{Folder, check, folder_of_job, on_ranks, start, start_test};

/// Returns the tensors of a shard: numbers of very different sizes, whose sums depend on the order.
fn shard(number: usize) -> Vec<Tensor> {
    let random = |stream: u64, len: usize| {
        let mut numbers = vec![0.0; len];
        let stream = Philox::new(3).stream(stream * 1000 + number as u64);
        stream.fill_normal_f32(0, &mut numbers);
        numbers.iter_mut().for_each(|x| *x = x.powi(5));
        numbers
    };
    vec![
        Tensor::from_vec(&[10, 37], random(0, 370)),
        Tensor::from_vec(&[], random(1, 1)),
        Tensor::from_vec(&[0, 4], Vec::<f32>::new()),
        Tensor::from_vec(&[3], random(2, 3)),
    ]
}

#[test]
fn sums_have_the_same_bits_on_any_number_of_ranks() {
    let name = concat!(
        module_path!(),
        "::sums_have_the_same_bits_on_any_number_of_ranks"
    );
    const N_SHARDS: [usize; 5] = [1, 2, 7, 8, 16];
    if let Some(folder) = folder_of_job() {
        let cluster = start();
        for n_shards in N_SHARDS {
            let own: Vec<_> = cluster.shards(n_shards).map(shard).collect();
            let sums = cluster.all_reduce(n_shards, &own).unwrap();
            let bits = sums.iter().flat_map(|sum| sum.to_host::<f32>().unwrap());
            let bits: Vec<u8> = bits.flat_map(f32::to_le_bytes).collect();
            let shapes: Vec<_> = sums.iter().map(|sum| sum.shape().unwrap()).collect();
            assert_eq!(shapes, [&[10, 37][..], &[], &[0, 4], &[3]]);
            let file = format!("{n_shards} shards, rank {}", cluster.rank());
            fs::write(folder.join(file), bits).unwrap();
        }
        return;
    }
    let mut expected: Option<Vec<Vec<u8>>> = None;
    for n_ranks in [1, 2, 3, 4] {
        let folder = Folder::new(name);
        let job = start_test(n_ranks, name, &folder);
        check(&job.wait_with_output().unwrap(), n_ranks);
        for rank in 0..n_ranks {
            let read =
                |n_shards| fs::read(folder.0.join(format!("{n_shards} shards, rank {rank}")));
            let bits: Vec<Vec<u8>> = N_SHARDS.map(|n_shards| read(n_shards).unwrap()).into();
            assert_eq!(expected.get_or_insert_with(|| bits.clone()), &bits);
        }
    }
    // The sum of eight shards, by the definition of the order.
    let numbers: Vec<f32> = (0..8)
        .map(|number| shard(number)[1].to_host::<f32>().unwrap()[[]])
        .collect();
    let pairs: Vec<f32> = numbers.chunks(2).map(|pair| pair[0] + pair[1]).collect();
    let sum = (pairs[0] + pairs[1]) + (pairs[2] + pairs[3]);
    let bits = &expected.unwrap()[3];
    assert_eq!(bits[370 * 4..371 * 4], sum.to_le_bytes());
}

#[test]
fn shards_of_different_forms_are_errors_on_all_ranks() {
    on_ranks(
        concat!(
            module_path!(),
            "::shards_of_different_forms_are_errors_on_all_ranks"
        ),
        &[1, 3],
        |cluster, _| {
            let (rank, n_ranks) = (cluster.rank(), cluster.n_ranks());
            let one = |len: usize| vec![Tensor::full(&[len], 1.0_f32).to_memory()];
            let error = cluster.all_reduce(0, &[]).unwrap_err();
            assert!(matches!(error, Error::ParameterInvalid { .. }), "{error}");
            // One shard too many on rank 0.
            let own = cluster.shards(4).len() + usize::from(rank == 0);
            let error = cluster.all_reduce(4, &vec![one(2); own]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("shards of this rank is invalid"), "{text}");
            // Another shape on the last rank, and another number of shards.
            if n_ranks > 1 {
                let len = if rank + 1 == n_ranks { 3 } else { 2 };
                let own = vec![one(len); cluster.shards(6).len()];
                let error = cluster.all_reduce(6, &own).unwrap_err();
                assert!(matches!(error, Error::RanksDiffer { .. }), "{error}");
                let n_shards = if rank == 1 { 3 } else { 6 };
                let own = vec![one(2); cluster.shards(n_shards).len()];
                let error = cluster.all_reduce(n_shards, &own).unwrap_err();
                assert!(matches!(error, Error::RanksDiffer { .. }), "{error}");
            }
            // Another shape within a rank, and a tensor of another type.
            let mut own = vec![one(2); cluster.shards(6).len()];
            own[1] = one(3);
            let text = cluster.all_reduce(6, &own).unwrap_err().to_string();
            assert!(text.contains("shapes of a shard is invalid"), "{text}");
            own[1] = vec![Tensor::full(&[2], 1_u32).to_memory()];
            cluster.all_reduce(6, &own).unwrap_err();
            // The ranks still work together.
            let own = vec![one(2); cluster.shards(6).len()];
            let sum = cluster.all_reduce(6, &own).unwrap().remove(0);
            assert_eq!(sum.to_host::<f32>().unwrap()[[1]], 6.0);
        },
        |_| (),
    );
}

/// Computation of a constant.
trait ToMemory {
    fn to_memory(&self) -> Tensor;
}

impl ToMemory for Tensor {
    fn to_memory(&self) -> Tensor {
        self.realize(&tensor_core::Host::new()).unwrap()
    }
}
