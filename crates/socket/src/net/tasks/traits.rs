//! The traits `AsyncRead` and `AsyncWrite` of tokio, for streams and their halves.

use super::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, TcpStream, WriteHalf};
use crate::net::Net;
use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

macro_rules! reads {
    ($(($name:ty, $it:ident => $stream:expr)),+) => { $(
        impl<N: Net> AsyncRead for $name {
            fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                let $it = &*self;
                $stream.poll_fill(cx, buf)
            }
        }
    )+ };
}

macro_rules! writes {
    ($(($name:ty, $it:ident => $stream:expr)),+) => { $(
        impl<N: Net> AsyncWrite for $name {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                let $it = &*self;
                $stream.poll_send(cx, buf)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let $it = &*self;
                $stream.poll_send_vectored(cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(())) // written data is already in the send buffer
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $it = &*self;
                $stream.poll_shutdown_write()
            }
        }
    )+ };
}

reads!((TcpStream<N>, it => it), (ReadHalf<'_, N>, it => it.0), (OwnedReadHalf<N>, it => it.0));
writes!((TcpStream<N>, it => it), (WriteHalf<'_, N>, it => it.0), (OwnedWriteHalf<N>, it => it.0));
