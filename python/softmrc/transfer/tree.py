"""The target directory, entered by file descriptors only: no link is followed, nothing outside is touched.

Decides how files are put aside, found again and moved into place; which names are legal is decided in
`names`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator

from softmrc.text import visible
from softmrc.transfer.errors import TargetError
from softmrc.transfer.names import STAGING

__all__ = ["Tree", "reason"]

_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def reason(error: OSError) -> str:
    """Return why a call failed, in words that fit a file tree."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "a symbolic link or a file is in the way"
    return error.strerror or str(error)


class Tree:
    """A directory that files are received into."""

    def __init__(self, path: str) -> None:
        """Open the directory; it is made when it does not exist.

        Raises:
            TargetError: it cannot be made, opened or written to.
        """
        self.path = os.path.abspath(path)
        self._staging = -1
        try:
            os.makedirs(self.path, exist_ok=True)
            self._root = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise TargetError(
                f"cannot use {visible(self.path)} as the target directory: {error.strerror}"
            ) from error
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(STAGING, 0o700, dir_fd=self._root)
            self._staging = os.open(STAGING, _DIR, dir_fd=self._root)
            self.ignores_case = self._probe_case()
        except OSError as error:
            self.close()
            raise TargetError(
                f"cannot keep unfinished files in {visible(self.path)}/{STAGING}: {reason(error)}"
            ) from error

    def _probe_case(self) -> bool:
        name = f"Case-Probe-{os.getpid()}"
        os.close(os.open(name, _FILE, 0o600, dir_fd=self._staging))
        try:
            os.stat(name.lower(), dir_fd=self._staging)
        except FileNotFoundError:
            return False
        finally:
            os.unlink(name, dir_fd=self._staging)
        return True

    def free_bytes(self) -> int:
        """Return the bytes an unprivileged process can still write."""
        info = os.fstatvfs(self._root)
        return info.f_bavail * info.f_frsize

    @staticmethod
    def staging_name(parts: tuple[str, ...]) -> str:
        """Return the name under which an unfinished file is kept; the same for every try."""
        return hashlib.sha256(os.fsencode("/".join(parts))).hexdigest()[:40]

    def open_staging(self, name: str) -> int:
        """Open or make a regular file of the staging directory for reading and writing.

        Raises:
            TargetError: it cannot be opened, or is no regular file of its own.
        """
        try:
            fd = os.open(name, _FILE, 0o600, dir_fd=self._staging)
        except OSError as error:
            raise TargetError(f"cannot open {STAGING}/{name}: {reason(error)}") from error
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
            os.close(fd)
            raise TargetError(f"{STAGING}/{name} is not a plain file; remove it")
        return fd

    def staged_bytes(self, parts: tuple[str, ...]) -> int:
        """Return the disk space an earlier try of a file has already taken."""
        try:
            info = os.stat(self.staging_name(parts), dir_fd=self._staging, follow_symlinks=False)
        except OSError:
            return 0
        return min(info.st_size, info.st_blocks * 512)

    def drop_staging(self, name: str) -> None:
        """Remove a file of the staging directory if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._staging)

    @contextlib.contextmanager
    def directory(self, parts: tuple[str, ...], create: bool) -> Iterator[int]:
        """Walk to a directory component by component and yield its descriptor.

        Raises:
            TargetError: a component is missing (`create` is False), no directory, a link, or not permitted.
        """
        fd = os.dup(self._root)
        try:
            for depth, part in enumerate(parts):
                try:
                    if create:
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(part, 0o777, dir_fd=fd)
                    inner = os.open(part, _DIR, dir_fd=fd)
                except OSError as error:
                    where = visible("/".join(parts[: depth + 1]))
                    raise TargetError(
                        f"cannot enter directory '{where}' in {visible(self.path)}: {reason(error)}"
                    ) from error
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    def stat(self, parts: tuple[str, ...]) -> os.stat_result | None:
        """Return the status of a name without following links; None: nothing is there."""
        try:
            with self.directory(parts[:-1], create=False) as fd:
                return os.stat(parts[-1], dir_fd=fd, follow_symlinks=False)
        except TargetError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        except FileNotFoundError:
            return None

    def open_existing(self, parts: tuple[str, ...]) -> int:
        """Open a regular file for reading.

        Raises:
            TargetError: missing, no regular file, or not permitted.
        """
        with self.directory(parts[:-1], create=False) as fd:
            try:
                file = os.open(
                    parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd
                )
            except OSError as error:
                raise TargetError(f"cannot read '{visible('/'.join(parts))}': {reason(error)}") from error
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise TargetError(f"'{visible('/'.join(parts))}' is not a plain file")
        return file

    def check_target(self, parts: tuple[str, ...], is_dir: bool) -> None:
        """Refuse early what a rename would refuse late.

        Raises:
            TargetError: something of another kind bears the name.
        """
        info = self.stat(parts)
        if info is None:
            return
        fits = stat.S_ISDIR(info.st_mode) if is_dir else stat.S_ISREG(info.st_mode)
        if not fits:
            kind = (
                "directory"
                if stat.S_ISDIR(info.st_mode)
                else "symbolic link"
                if stat.S_ISLNK(info.st_mode)
                else "file"
            )
            wanted = "directory" if is_dir else "file"
            raise TargetError(
                f"'{visible('/'.join(parts))}' exists in {visible(self.path)} as a {kind}, "
                f"a {wanted} is to be received; "
                "move it away first"
            )

    def publish(self, name: str, parts: tuple[str, ...]) -> None:
        """Move a finished file of the staging directory to its name, replacing an older one atomically.

        Raises:
            TargetError: the directory cannot be entered or written.
        """
        self.check_target(parts, is_dir=False)
        with self.directory(parts[:-1], create=True) as fd:
            try:
                os.rename(name, parts[-1], src_dir_fd=self._staging, dst_dir_fd=fd)
                os.fsync(fd)
            except OSError as error:
                raise TargetError(
                    f"cannot move '{visible('/'.join(parts))}' into place: {reason(error)}"
                ) from error

    def close(self) -> None:
        """Leave the directory; the staging directory goes when it is empty. Idempotent."""
        if self._staging >= 0:
            os.close(self._staging)
            self._staging = -1
            with contextlib.suppress(OSError):
                os.rmdir(STAGING, dir_fd=self._root)
        if self._root >= 0:
            os.close(self._root)
            self._root = -1
