//! Fuzz target: an FTP server and its clients, with commands, data connections and time.
#![no_main]

linerate_fuzz::target!(apps::fuzz::ftp);
