"""Files of an archive, wherever Spark can reach them: a local disk, HDFS, or another file system of Hadoop.

Paths are relative to the archive, with ``/``. Renaming must be atomic and must refuse a name that is taken, as on local
disks and HDFS; object stores do not promise that.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.errors import Fault, StorageError
from entrepot.pipeline.jobs.layout import KEPT, Kept, check_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA_KEY: Final = "org.apache.spark.sql.parquet.row.metadata"
SUFFIX: Final = ".parquet"


class Storage:
    """The directory of one archive, through the driver's Java."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        if jvm is None:
            raise Fault("the jobs need Spark's own driver; Spark Connect has none")
        self._jvm = jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._configuration = spark._jsc.hadoopConfiguration()
        given = jvm.org.apache.hadoop.fs.Path(root)
        self._files = given.getFileSystem(self._configuration)
        self._context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            given.toUri() if given.toUri().getScheme() else self._files.getUri(), self._configuration
        )
        self._root = self._files.makeQualified(given)
        self.root = str(self._root.toString())

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

    def move(self, source: str, target: str) -> None:
        """Give a file its place. Does nothing when it was moved before."""
        if not self.exists(source):
            return
        folder = target.rpartition("/")[0]
        self.make(folder)
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


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
