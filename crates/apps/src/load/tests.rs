use super::*;
use linerate::sim::Random;

/// Limits use no memory in advance, so the largest service that the flags permit can be created.
#[test]
fn service_bounds_admit_the_maximum_flags() {
    let kv = kv::bounds();
    let key = 16 + VALUE_MAX as usize;
    assert!(kv.keys == KEYS_MAX as usize && kv.bytes > kv.keys * key + (64 << 20), "{kv:?}");
    let files = files::bounds();
    assert!(files.nodes > FILES_MAX as usize + CLIENTS_MAX && files.file >= FILE_MAX as usize, "{files:?}");
    assert!(files.bytes > files.nodes * FILE_MAX as usize, "{files:?}");
}

#[test]
fn ranks_follow_the_zipf_distribution() {
    let (zipf, mut draw) = (Zipf::new(1000, 0.99), Random::new(7));
    let mut counts = [0u32; 1000];
    (0..200_000).for_each(|_| counts[zipf.rank(&mut draw) as usize] += 1);
    let zeta: f64 = (1..=1000).map(|n| f64::from(n).powf(-0.99)).sum();
    for rank in [0usize, 1, 9, 99] {
        let wanted = 200_000.0 * ((rank + 1) as f64).powf(-0.99) / zeta;
        let got = f64::from(counts[rank]);
        // The approximation is exact for the first two ranks, and has an error of less than a fifth
        // for the others.
        assert!((got / wanted - 1.0).abs() < 0.2, "rank {rank}: {got}, and {wanted} wanted");
    }
    assert!(counts.iter().all(|count| *count > 0));
    let (flat, mut counts) = (Zipf::new(10, 0.0), [0u32; 10]);
    (0..100_000).for_each(|_| counts[flat.rank(&mut draw) as usize] += 1);
    assert!(counts.iter().all(|count| (9_000..11_000).contains(count)), "{counts:?}");
    assert_eq!(Zipf::new(1, 0.99).rank(&mut draw), 0);
    assert!((0..1000).all(|_| Zipf::new(2, 0.5).rank(&mut draw) < 2));
}

#[test]
fn repeated_exists_errors_end_the_fill() {
    let mut load = Fileload::new(Files { count: 2, transfers: 1 });
    let exists = [0, 0, 0, 5, 0, 0, 0, 1, crate::filed::proto::Status::Exists as u8];
    for wanted in ["CREATE", "LOOKUP"] {
        assert!(load.fill(&mut Vec::new()), "{wanted}");
        let heard = load.on_reply(0, None, &exists);
        assert_eq!(heard.is_ok(), wanted == "CREATE", "{wanted}: {heard:?}");
    }
}
