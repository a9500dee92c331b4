use super::*;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::symlink;

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let path = std::env::temp_dir().join(format!("linerate-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("in/sub")).unwrap();
        fs::write(path.join("secret"), "secret").unwrap();
        fs::write(path.join("in/a"), "0123456789").unwrap();
        symlink("../secret", path.join("in/file-out")).unwrap();
        symlink("..", path.join("in/dir-out")).unwrap();
        symlink("a", path.join("in/alias")).unwrap();
        symlink("loop", path.join("in/loop")).unwrap();
        Dir(path)
    }

    fn root(&self, uploads: Uploads) -> Root {
        Root::devices().with_directory(&self.0.join("in"), uploads, 20).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn name(text: &str) -> Name {
    Name::root().join(text.as_bytes()).unwrap()
}

fn all(mut source: Source) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let some = source.peek().unwrap().to_vec();
        if some.is_empty() {
            return out;
        }
        source.advance(some.len());
        out.extend(some);
    }
}

#[test]
fn names_stay_below_the_root() {
    let pub_ = name("/pub");
    for (text, is) in
        [("a", "/pub/a"), ("/a//b/", "/a/b"), ("../x", "/x"), ("./.", "/pub"), ("", "/pub"), ("a/../..", "/")]
    {
        assert_eq!(pub_.join(text.as_bytes()).unwrap().as_str(), is, "{text}");
    }
    for text in ["../..", "/..", "a/../../../b", "/a/../../etc/passwd"] {
        assert_eq!(pub_.join(text.as_bytes()), Err(Refusal::Escape), "{text}");
    }
    // `..` at the root is the root, as in POSIX.1-2017 XBD 4.13.
    for (text, is) in [("../../a", "/a"), ("/..", "/"), ("../x/../..", "/"), ("b", "/pub/b")] {
        assert_eq!(pub_.walk(text.as_bytes()).unwrap().as_str(), is, "{text}");
    }
    let long = vec![b'a'; 300];
    for text in [&b"a\0b"[..], b"a\nb", b"\xff", &long, &b"ab/".repeat(400)] {
        assert_eq!(pub_.join(text), Err(Refusal::BadName));
    }
}

#[test]
fn devices_are_ours() {
    let root = Root::devices();
    assert_eq!(root.open(&name("/dev/zero"), 5).unwrap().0.left(), None);
    assert_eq!(root.open(&name("/dev/null"), 0).unwrap().0.left(), Some(0));
    assert!(root.create(&name("/dev/null"), 0).unwrap().write(&[0; 100]).is_ok());
    assert_eq!(root.create(&name("/dev/zero"), 0).err(), Some(Refusal::Denied));
    assert_eq!(root.create(&name("/x"), 0).err(), Some(Refusal::Denied));
    assert_eq!(root.open(&name("/dev"), 0).err(), Some(Refusal::NotPlain));
    assert_eq!(root.open(&name("/dev/tty"), 0).err(), Some(Refusal::NotFound));
    let mut names: Vec<String> = root.list(&name("/dev")).unwrap().map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(names, ["null", "zero"]);
    let top: Vec<(String, bool)> = root.list(&Name::root()).unwrap().map(|(name, meta)| (name, meta.is_dir)).collect();
    assert_eq!(top, [("dev".to_owned(), true)]);
}

#[test]
fn symbolic_links_never_leave_the_root() {
    let dir = Dir::new("links");
    let root = dir.root(Uploads::Replace);
    assert_eq!(all(root.open(&name("/alias"), 4).unwrap().0), b"456789");
    for text in ["/file-out", "/dir-out/secret", "/dir-out/in/../secret", "/loop", "/dir-out"] {
        let refused = [root.open(&name(text), 0).err(), root.create(&name(text), 0).err()];
        assert!(refused.iter().all(Option::is_some), "{text}: {refused:?}");
        assert!(root.meta(&name(text)).is_err(), "{text}");
    }
    assert_eq!(fs::read(dir.0.join("secret")).unwrap(), b"secret");
    let mut names: Vec<String> = root.list(&Name::root()).unwrap().map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(names, ["a", "alias", "dev", "sub"], "what leads out is not shown");
}

#[test]
fn a_named_pipe_is_refused_without_blocking() {
    let dir = Dir::new("pipe");
    let made = std::process::Command::new("mkfifo").arg(dir.0.join("in/pipe")).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: mkfifo does not run");
        return;
    }
    let root = dir.root(Uploads::Replace);
    assert_eq!(root.open(&name("/pipe"), 0).err(), Some(Refusal::NotPlain));
    assert!(root.create(&name("/pipe"), 0).is_err());
}

#[test]
fn uploads_follow_the_upload_policy() {
    let dir = Dir::new("store");
    assert_eq!(dir.root(Uploads::Refused).create(&name("/n"), 0).err(), Some(Refusal::Denied));
    let fresh = dir.root(Uploads::New);
    assert_eq!(fresh.create(&name("/a"), 0).err(), Some(Refusal::Exists));
    fresh.create(&name("/sub/n"), 0).unwrap().write(b"new").unwrap();
    assert_eq!(fs::read(dir.0.join("in/sub/n")).unwrap(), b"new");
    assert_eq!(fresh.create(&name("/no/n"), 0).err(), Some(Refusal::NotFound));
    let any = dir.root(Uploads::Replace);
    any.create(&name("/a"), 4).unwrap().write(b"xy").unwrap();
    assert_eq!(fs::read(dir.0.join("in/a")).unwrap(), b"0123xy");
    assert_eq!(any.create(&name("/a"), 7).err(), Some(Refusal::BadOffset), "behind its end");
    // A refused upload changes nothing.
    fs::write(dir.0.join("in/long"), [7; 30]).unwrap();
    assert_eq!(any.create(&name("/long"), 25).err(), Some(Refusal::NoSpace));
    assert_eq!(fs::read(dir.0.join("in/long")).unwrap(), [7; 30]);
    assert_eq!(any.create(&name("/absent"), 5).err(), Some(Refusal::NotFound));
    assert_eq!(fresh.create(&name("/absent"), 5).err(), Some(Refusal::Denied));
    assert_eq!(fresh.create(&name("/long"), 5).err(), Some(Refusal::Denied));
    assert!(!dir.0.join("in/absent").exists());
    assert_eq!(any.create(&name("/sub"), 0).err(), Some(Refusal::NotPlain));
    // At most twenty bytes.
    let mut sink = any.create(&name("/a"), 0).unwrap();
    sink.write(&[1; 15]).unwrap();
    assert_eq!(sink.write(&[1; 6]), Err(Refusal::NoSpace));
}

#[test]
fn a_file_that_becomes_shorter_is_an_error() {
    let dir = Dir::new("shorter");
    let root = dir.root(Uploads::Refused);
    let (mut source, _) = root.open(&name("/a"), 0).unwrap();
    fs::write(dir.0.join("in/a"), "").unwrap();
    assert_eq!(source.peek().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_source_returns_the_requested_part() {
    let bytes: Arc<[u8]> = b"0123456789"[..].into();
    assert_eq!(all(Source::bytes(bytes.clone(), 3, 4)), b"3456");
    assert_eq!(all(Source::bytes(bytes.clone(), 30, 4)), b"");
    let mut some = Source::bytes(bytes, 0, u64::MAX);
    some.limit(2);
    assert_eq!((some.left(), all(some)), (Some(2), b"01".to_vec()));
    assert_eq!(all(Source::zeros(600_000)).len(), 600_000);
}

proptest! {
    #[test]
    fn any_name_is_below_the_root(base in "[a-z/.]{0,20}", text in proptest::collection::vec(any::<u8>(), 0..60)) {
        let base = Name::root().join(base.as_bytes()).unwrap_or(Name::root());
        if let Ok(name) = base.join(&text) {
            prop_assert!(name.as_str().starts_with('/'));
            prop_assert!(name.parts().all(|part| part != ".." && part != "." && !part.contains('\0')));
            // Joining a name again yields the same name.
            prop_assert_eq!(Name::root().join(name.as_str().as_bytes()), Ok(name.clone()));
            let parent = name.parent();
            prop_assert_eq!(parent.join(name.file_name().as_bytes()), Ok(name));
        }
    }
}
