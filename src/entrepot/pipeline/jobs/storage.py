"""Files that the jobs write, wherever Spark can reach them: a local disk, HDFS, an object store (``s3a://``).

Paths are relative to the directory of a job, with ``/``. On file systems a file is written aside and renamed, which is
atomic and refuses a name that is taken. Object stores do not rename, but show an object only when it is complete: there
a file is created under its name, and what is moved is copied whole before its source goes. So nobody sees half a file
on either; that of two writers of one name the second is refused, an object store promises only if it can create
conditionally (S3 can).
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.errors import InvalidOption, OperatorError, StorageError
from entrepot.pipeline.jobs.layout import KEPT, Kept, check_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA_KEY: Final = "org.apache.spark.sql.parquet.row.metadata"
SUFFIX: Final = ".parquet"
RENAMING: Final = ("file", "hdfs", "viewfs", "webhdfs", "swebhdfs", "ofs", "abfs", "abfss")
"""Schemes of file systems that rename in one step (ABFS where the account has a hierarchy, as it should for data)."""


class Storage:
    """One directory, through the driver's Java. ``renames``: its file system renames in one step."""

    def __init__(self, spark: SparkSession, root: str, *, renames: bool | None = None) -> None:
        """``root``: a path or a URI of Hadoop. ``renames``: None: as the scheme says.

        Raises InvalidOption, and OperatorError for a session of Spark Connect.
        """
        jvm: Any = getattr(spark, "_jvm", None)  # a session of Spark Connect raises an AttributeError of its own
        if jvm is None:
            raise OperatorError(
                "the jobs write through the Java of Spark's driver, which a session of Spark Connect has not",
                remedy="run them with --master, or by spark-submit; the format itself works over Spark Connect",
            )
        self._jvm = jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._configuration = spark._jsc.hadoopConfiguration()
        try:
            given = jvm.org.apache.hadoop.fs.Path(root)
            self._files = given.getFileSystem(self._configuration)
            self._root = self._files.makeQualified(given)
        except Exception as error:
            raise _unreachable(root, error) from error
        self.root = str(self._root.toString())
        self.renames = self.root.partition(":")[0] in RENAMING if renames is None else renames
        self._context: Any = None
        if self.renames:
            where = self._root.toUri()
            self._context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(where, self._configuration)

    def path(self, name: str) -> str:
        """Return the whole path of ``name``."""
        return f"{self.root}/{name}" if name else self.root

    def exists(self, name: str) -> bool:
        """Whether there is such a file or directory."""
        return bool(self._files.exists(self._at(name)))

    def make(self, name: str) -> None:
        """Make a directory and those above it."""
        self._files.mkdirs(self._at(name))

    def read(self, name: str) -> str | None:
        """Return the text of a file, None when there is none."""
        if not self.exists(name):
            return None
        stream = self._files.open(self._at(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        except Exception as error:
            raise StorageError(f"{self.path(name)} cannot be read: {str(error).splitlines()[0]}") from error
        finally:
            stream.close()

    def write(self, name: str, text: str, *, replace: bool = False) -> bool:
        """Write a file at once; return False, and leave it as it is, when it is there and shall not be replaced."""
        if not self.renames:
            return self._create(name, text, replace)
        part = f"{name.rpartition('/')[0]}/.{uuid.uuid4().hex}.part"
        stream = self._files.create(self._at(part))
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if not replace and self.exists(name):
            self.remove(part)
            return False
        how = self._rename_options("OVERWRITE" if replace else "NONE")
        try:
            self._context.rename(self._at(part), self._at(name), how)
        except Exception:
            self.remove(part)
            if replace or not self.exists(name):
                raise
            return False
        return True

    def _create(self, name: str, text: str, replace: bool) -> bool:
        """Write an object; on a store that creates conditionally the name is refused when the stream is closed."""
        try:
            stream = self._files.create(self._at(name), replace)
            stream.write(bytearray(text.encode()))
            stream.close()
        except Exception:
            if replace or not self.exists(name):
                raise
            return False
        return True

    def move(self, source: str, target: str) -> None:
        """Give a file its place. Does nothing when it was moved before."""
        if not self.exists(source):
            return
        folder = target.rpartition("/")[0]
        self.make(folder)
        if not self.renames:
            if not self.exists(target):  # else it is there, whole: only its source was left
                self._files.rename(self._at(source), self._at(target))
            self.remove(source)
            return
        self._context.rename(self._at(source), self._at(target), self._rename_options("OVERWRITE"))

    def sync(self, names: Iterable[str]) -> None:
        """Make files safe against a power cut, where they are on a disk of this machine; others see to it."""
        if not self.root.startswith("file:"):
            return
        folders: dict[str, None] = {}
        for name in names:
            whole = self._local(name)
            if os.path.exists(whole):  # or it was compacted since
                _sync(whole)
            while name:
                name = name.rpartition("/")[0]
                folders[self._local(name)] = None
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):
                _sync(folder)

    def remove(self, name: str) -> None:
        """Remove a file or a directory, if it is there."""
        self._files.delete(self._at(name), True)

    def names(self, folder: str) -> list[str]:
        """Return what is in a directory, in order; [] when it is not there."""
        if not self.exists(folder):
            return []
        return sorted(str(found.getPath().getName()) for found in self._files.listStatus(self._at(folder)))

    def ages(self, folder: str, now_ms: int) -> dict[str, int]:
        """Return what is in a directory, and for how many ms it has not changed."""
        if not self.exists(folder):
            return {}
        found = self._files.listStatus(self._at(folder))
        return {str(one.getPath().getName()): now_ms - int(one.getModificationTime()) for one in found}

    def files(self, folder: str = "") -> list[tuple[str, int]]:
        """Return all Parquet files below ``folder`` as (path, octets), in order; what the jobs keep is passed over."""
        if not self.exists(folder):
            return []
        found: list[tuple[str, int]] = []
        walk = self._files.listFiles(self._at(folder), True)
        start = len(self.root) + 1
        while walk.hasNext():
            status = walk.next()
            name = str(status.getPath().toString())[start:]
            hidden = not folder and name.startswith((f"{KEPT}/", "_", "."))
            if not hidden and name.endswith(SUFFIX) and not name.rpartition("/")[2].startswith((".", "_")):
                found.append((name, int(status.getLen())))
        return sorted(found)

    def look(self, name: str, octets: int) -> Kept:
        """Read the foot of a file. Raises InvalidOption when it is not of an archive of a known version."""
        whole = self._at(name)
        open_ = self._jvm.org.apache.parquet.hadoop.ParquetFileReader.open
        reader = None
        try:
            reader = open_(
                self._jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(whole, self._configuration)
            )
            rows = int(reader.getRecordCount())
            schema = reader.getFooter().getFileMetaData().getKeyValueMetaData().get(SCHEMA_KEY)
        except Exception as error:
            if "is not a Parquet file" not in str(error):
                raise
            schema, rows = None, 0
        finally:
            if reader is not None:
                with contextlib.suppress(Exception):
                    reader.close()
        check_schema(schema, self.path(name))
        return Kept(name, rows, octets)

    def _local(self, name: str) -> str:
        return self.path(name).removeprefix("file:")

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path(name))

    def _rename_options(self, how: str) -> Any:
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        made = self._gateway.new_array(rename, 1)  # Java's varargs
        made[0] = getattr(rename, how)
        return made


def fresh(spark: SparkSession, root: str | os.PathLike[str]) -> Storage:
    """Return a directory that a job may fill with its results. Raises InvalidOption when there is something in it."""
    made = Storage(spark, os.fspath(root))
    if made.names(""):
        raise InvalidOption(f"{made.root} is not empty", remedy="name a directory that is not there yet")
    made.make("")
    return made


def _unreachable(root: str, error: Exception) -> InvalidOption:
    said = next((line.strip() for line in str(error).splitlines() if "Exception:" in line), str(error).splitlines()[0])
    return InvalidOption(
        f"{root} cannot be reached: {said}",
        remedy="Spark must have what its file system takes: for s3a, --packages org.apache.hadoop:hadoop-aws:<version "
        "of Hadoop>, and credentials",
    )


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
