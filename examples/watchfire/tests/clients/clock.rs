//! A clock that jumps: a library in front of the C library's, which adds to the time of day what a file says.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::random::Random;
use crate::support::World;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    char text[32] = {0};
    const char *name = getenv("TEST_CLOCK");
    if (clock == CLOCK_REALTIME && name) {
        int file = open(name, O_RDONLY | O_CLOEXEC);
        if (file >= 0) {
            if (read(file, text, sizeof text - 1) > 0) time->tv_sec += atoll(text);
            close(file);
        }
    }
    return result;
}
"#;

/// The clock of the daemon.
pub(crate) struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    pub(crate) fn new(world: &World) -> Self {
        let (source, library) = (world.path("clock.c"), world.path("clock.so"));
        fs::write(&source, SOURCE).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
        assert!(compiler.status().unwrap().success(), "a C compiler built this crate, too");
        let clock = Self { library, file: world.path("clock") };
        clock.set(0);
        clock
    }

    /// Variables of a process that has this clock.
    pub(crate) fn variables(&self) -> [(&str, &str); 2] {
        [("LD_PRELOAD", self.library.to_str().unwrap()), ("TEST_CLOCK", self.file.to_str().unwrap())]
    }

    /// Lets it jump, up to two days from the right time.
    pub(crate) fn jump(&self, random: &mut Random) {
        let seconds = random.below(2 * 2 * 86_400) as i64 - 2 * 86_400;
        self.set(seconds);
    }

    /// Sets it right.
    pub(crate) fn stop(&self) {
        self.set(0);
    }

    fn set(&self, seconds: i64) {
        let new = self.file.with_extension("new");
        fs::write(&new, seconds.to_string()).unwrap();
        fs::rename(new, &self.file).unwrap();
    }
}
