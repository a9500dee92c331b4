//! Sockets for tasks in runtimes of tokio: with many threads, and on one thread with its driver.

use linerate::net::Net;
use linerate::net::tokio::{TcpListener, TcpStream, UdpSocket};
use linerate::{Driver, Host, LocalHost};
use std::io::{ErrorKind, IoSlice};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

fn two(link: &str) -> (Host, Host) {
    let host = |name: &str, addr: &str| Host::builder().name(name).port(link).addr(addr).build().unwrap();
    (host("a", "10.0.0.1/24"), host("b", "10.0.0.2/24"))
}

/// Sends back what each connection sends, until the host is stopped.
async fn serve<H: Net + Clone + Send + Sync + 'static>(listener: TcpListener<H>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let (mut reader, mut writer) = stream.into_split();
            tokio::io::copy(&mut reader, &mut writer).await
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_of_many_threads_share_a_host() {
    let (a, b) = two("pair:threads");
    let server = tokio::spawn(serve(TcpListener::bind(&b, "10.0.0.2:7").await.unwrap()));
    let mut clients = JoinSet::new();
    for n in 0..64u8 {
        let host = a.clone();
        clients.spawn(async move {
            let (mut reader, mut writer) = TcpStream::connect(&host, "10.0.0.2:7").await?.into_split();
            let writing = tokio::spawn(async move {
                let (half, rest) = ([n; 50_000], [n; 50_000]);
                let mut bufs = [IoSlice::new(&half), IoSlice::new(&rest)];
                let mut bufs = &mut bufs[..];
                while !bufs.is_empty() {
                    let sent = AsyncWriteExt::write_vectored(&mut writer, bufs).await?;
                    IoSlice::advance_slices(&mut bufs, sent);
                }
                AsyncWriteExt::shutdown(&mut writer).await
            });
            let mut echo = Vec::new();
            AsyncReadExt::read_to_end(&mut reader, &mut echo).await?;
            writing.await??;
            std::io::Result::Ok(echo == vec![n; 100_000])
        });
    }
    for done in clients.join_all().await {
        assert!(done.unwrap());
    }
    b.shutdown(Duration::from_secs(5)).unwrap();
    server.await.unwrap();
}

/// A dropped connect gives the connection up, a timeout of a read loses no bytes, and a select over
/// many futures serves all of them.
#[tokio::test]
async fn futures_may_be_dropped() {
    let (a, b) = two("pair:cancel");
    let listener = TcpListener::bind(&b, "10.0.0.2:7").await.unwrap();
    let nobody = tokio::time::timeout(Duration::from_millis(20), TcpStream::connect(&a, "10.0.0.77:7")).await;
    assert!(nobody.is_err(), "the neighbor does not answer");
    let client = TcpStream::connect(&a, "10.0.0.2:7").await.unwrap();
    let server = listener.accept().await.unwrap().0;
    let mut received = Vec::new();
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    let writing = tokio::spawn(async move {
        for n in 0..200u8 {
            client.write_all(&[n; 100]).await.unwrap();
            tokio::time::sleep(Duration::from_micros(300)).await;
        }
    });
    loop {
        let mut buf = [0; 64];
        tokio::select! {
            read = server.read(&mut buf) => match read.unwrap() {
                0 => break,
                n => received.extend_from_slice(&buf[..n]),
            },
            _ = ticks.tick() => {}
        }
    }
    writing.await.unwrap();
    assert_eq!(received, (0..200u8).flat_map(|n| [n; 100]).collect::<Vec<_>>());
    let socket = UdpSocket::bind(&a, "10.0.0.1:0").await.unwrap();
    socket.connect("10.0.0.2:99").await.unwrap();
    socket.send(b"x").await.unwrap();
    assert_eq!(socket.recv(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

/// Returns the resident memory of this process in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Ten thousand connections in one runtime, which also runs both hosts: each echoes, none fails.
#[test]
fn ten_thousand_connections_in_one_runtime() {
    const CONNECTIONS: usize = 10_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tasks = tokio::task::LocalSet::new();
    let host = |name: &str, addr: &str| {
        Host::builder().name(name).port("pair(slots=4096):many").addr(addr).buffers(65_536).build_local().unwrap()
    };
    let (a, b) = (host("a", "10.0.0.1/24"), host("b", "10.0.0.2/24"));
    let driver = Driver::new([a.clone(), b.clone()]);
    tasks.spawn_local(async move { driver.run().await });
    let listener = tasks.block_on(&runtime, TcpListener::bind(&b, "10.0.0.2:7")).unwrap();
    tasks.spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::task::spawn_local(async move {
                let (mut reader, mut writer) = stream.into_split();
                tokio::io::copy(&mut reader, &mut writer).await
            });
        }
    });
    let before = resident();
    let connect = async |host: &LocalHost| TcpStream::connect(host, "10.0.0.2:7").await;
    let streams = tasks.block_on(&runtime, async {
        let mut streams = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            streams.push(connect(&a).await.unwrap());
        }
        streams
    });
    let each = (resident() - before) / CONNECTIONS;
    println!("{each} bytes a connection: both ends, their tasks, and the buffers of the echo");
    tasks.block_on(&runtime, async {
        let mut echoes = JoinSet::new();
        for (n, stream) in streams.into_iter().enumerate() {
            echoes.spawn_local(async move {
                let text = n.to_be_bytes();
                stream.write_all(&text).await.unwrap();
                let mut echo = [0; 8];
                stream.read_exact(&mut echo).await.unwrap();
                assert_eq!(echo, text);
            });
        }
        assert_eq!(echoes.join_all().await.len(), CONNECTIONS);
    });
}

/// The driver sleeps on the descriptor of a port whose connection is replaced. 60 requests with
/// pauses would last 6 s if each waited for the next poll.
#[test]
fn a_driver_wakes_for_frames_of_each_connection() {
    use std::io::{Read, Write};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let path = std::env::temp_dir().join(format!("linerate-{}-driver", std::process::id()));
    let port = format!("unix(server=on):{}", path.display());
    let host = Host::builder().port(&port).addr("10.0.0.1/24").build_local().unwrap();
    let peer = std::thread::spawn(move || {
        let mut request = vec![0, 0, 0, 42];
        request.extend([0xff; 6]);
        request.extend([2, 0, 0, 0, 0, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2]);
        request.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
        let mut waited = Duration::ZERO;
        for _ in 0..3 {
            let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(5));
                let start = std::time::Instant::now();
                stream.write_all(&request).unwrap();
                loop {
                    let mut len = [0; 4];
                    stream.read_exact(&mut len).unwrap();
                    let mut frame = vec![0; u32::from_be_bytes(len) as usize];
                    stream.read_exact(&mut frame).unwrap();
                    if frame[12..14] == [8, 6] && frame[20..22] == [0, 2] {
                        break;
                    }
                }
                waited += start.elapsed();
            }
        }
        waited
    });
    let driver = Driver::new([host]);
    let waited = runtime.block_on(async {
        tokio::select! {
            never = driver.run() => panic!("{never:?}"),
            done = tokio::task::spawn_blocking(|| peer.join().unwrap()) => done.unwrap(),
        }
    });
    assert!(waited < Duration::from_secs(3), "{waited:?}");
}
