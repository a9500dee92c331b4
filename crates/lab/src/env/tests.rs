use std::fs;

use super::*;

fn machine() -> Environment {
    let root = std::env::temp_dir().join(format!("lab-env-{}-{:?}", std::process::id(), std::thread::current().id()));
    let file = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    file("proc/cpuinfo", "processor\t: 0\nmodel name\t: Intel(R) Core(TM)2 Duo CPU T9400 @ 2.53GHz\nflags : tsc\n");
    file("proc/stat", "cpu  1 2 3\ncpu0 1 1 1\ncpu1 0 1 2\nintr 5\n");
    file("proc/meminfo", "MemTotal:        4046848 kB\nHugePages_Total:      16\nHugepagesize:       2048 kB\n");
    file("proc/loadavg", "0.07 0.14 0.21 1/83 4553\n");
    file("proc/sys/kernel/osrelease", "6.18.0-test\n");
    file("proc/sys/net/ipv4/tcp_congestion_control", "bbr\n");
    file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    let environment = Environment::read(&root);
    fs::remove_dir_all(root).unwrap();
    environment
}

#[test]
fn a_known_machine_is_read() {
    let env = machine();
    assert_eq!(env.cpu, "Intel(R) Core(TM)2 Duo CPU T9400 @ 2.53GHz");
    assert_eq!((env.cores, env.memory_kib, env.load), (2, 4_046_848, [0.07, 0.14, 0.21]));
    assert_eq!((env.huge_pages.as_str(), env.transparent_huge_pages.as_str()), ("16 x 2048 KiB", "madvise"));
    assert_eq!(
        (env.governor.as_str(), env.kernel.as_str(), env.congestion_control.as_str()),
        ("n/a", "6.18.0-test", "bbr")
    );
}

#[test]
fn an_empty_root_gives_defaults() {
    let env = Environment::read(Path::new("/nonexistent"));
    assert_eq!((env.cpu.as_str(), env.huge_pages.as_str(), env.load), ("n/a", "n/a", [0.0; 3]));
    assert!(env.cores >= 1);
}

#[test]
fn json_and_back() {
    let env = machine();
    let json = serde_json::to_string(&env).unwrap();
    assert_eq!(serde_json::from_str::<Environment>(&json).unwrap(), env);
}

#[test]
fn the_header_is_a_few_lines_with_everything_in_it() {
    let header = machine().to_string();
    for word in ["T9400", "GHz", "timer", "madvise", "bbr", "rustc 1.", "opt-level", "rev "] {
        assert!(header.contains(word), "{word} in\n{header}");
    }
    assert!(header.lines().count() < 14, "{header}");
}

#[test]
fn weaknesses_give_warnings() {
    let mut env = machine();
    env.virtualisation = "none".into();
    env.tsc_invariant = true;
    env.build = Build { debug_assertions: false, opt_level: "3".into(), git_rev: "0123456789ab".into(), ..env.build };
    assert_eq!(env.warnings(), Vec::<String>::new());
    env.build.debug_assertions = true;
    assert!(env.warnings()[0].starts_with("WARNING: not a benchmark build"));
    env.build =
        Build { debug_assertions: false, opt_level: "1".into(), git_rev: "0123456789ab-dirty".into(), ..env.build };
    env.load[0] = 1.5;
    env.governor = "powersave".into();
    env.tsc_invariant = false;
    env.virtualisation = "KVMKVMKVM".into();
    assert_eq!(env.warnings().len(), 6);
}

#[test]
fn the_build_describes_itself() {
    let build = Build::this();
    assert!(build.rustc.starts_with("rustc ") && build.debug_assertions == cfg!(debug_assertions));
}
