//! An FTP server and its clients: commands, data connections, time.
#![no_main]

linerate_fuzz::target!(apps::fuzz::ftp);
