use super::*;
use crate::profile::{Bucket, Source, Stack};

fn stack(names: &[&str], us: u64) -> Stack {
    let names = names.iter().map(|name| name.to_string()).collect();
    Stack { thread: "main".into(), names, decider: 0, bucket: Bucket::Other, samples: 1, ns: us * 1000 }
}

fn profile(stacks: Vec<Stack>) -> Profile {
    let source = Source::ThreadTimers;
    Profile { rate_hz: 997, source, seconds: 1.0, process_ns: 1, stacks, threads: Vec::new() }
}

#[test]
fn equal_stacks_are_one_line_outermost_first() {
    let profile = profile(vec![
        stack(&["inner", "outer"], 700),
        stack(&["inner", "outer"], 300),
        stack(&["a;b\nc"], 5),
        Stack { ns: 499, ..stack(&["too little"], 0) },
    ]);
    assert_eq!(fold(&profile), "main;a:b:c 5\nmain;outer;inner 1000\n");
}

#[test]
fn folded_lines_sum_by_function_and_invalid_ones_are_rejected() {
    let lines = "main;a;x 3\nmain;b;x 4\n\nmain;inet::fib::find;core::cmp::lt 2\nmain;libc::write;[kernel] write 5\n\
                 main;inet::a;libc.so.6+0x271d0 1\nmain;inet::a;[unknown] 6\nmain 8\n";
    let sums = functions(lines).unwrap();
    let expected = [
        ("[kernel] write", 5),
        ("[unknown]", 6),
        ("inet::fib::find", 2),
        ("libc.so.6+0x271d0", 1),
        ("main", 8),
        ("x", 7),
    ];
    assert_eq!(sums.iter().map(|(name, us)| (name.as_str(), *us)).collect::<Vec<_>>(), expected);
    for bad in ["main;a", "main;a x", "7", "main;a -3"] {
        let why = functions(&format!("main;b 1\n{bad}\n")).unwrap_err().to_string();
        assert!(why.starts_with("line 2: "), "{bad}: {why}");
    }
}

#[test]
#[cfg(not(feature = "flamegraph"))]
fn without_the_feature_the_error_names_it() {
    let expected = "built without flamegraphs: rebuild with --features flamegraph";
    let results = [svg("main 1\n", "title"), difference("main 1\n", "main 2\n")];
    for result in results {
        assert_eq!(result.unwrap_err().to_string(), expected);
    }
}
