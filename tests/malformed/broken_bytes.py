"""What can have happened to a file, whatever it holds."""

from collections.abc import Callable

BYTES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda sound: b"",
    "half": lambda sound: sound[: len(sound) // 2],
    "without its end": lambda sound: sound[:-3],
    "without its beginning": lambda sound: sound[1:],
    "zeros": lambda sound: bytes(len(sound)),
    "a blank": lambda sound: b" ",
    "not UTF-8": lambda sound: b"\xff\xfe" + sound,
    "UTF-16": lambda sound: sound.decode("latin-1").encode("utf-16"),
    "words": lambda sound: b"this is something else entirely\n",
    "HTML": lambda sound: b"<!DOCTYPE html><html><body>404: Not Found</body></html>",
    "a pointer of Git LFS": lambda sound: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    "a pickle": lambda sound: b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00]\x94(K\x01K\x02e.",
    "a long line": lambda sound: b"x" * 10**6,
}
"""Name -> what becomes of the bytes. None of them is what a file should hold."""

JSON: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda sound: b"null",
    "a list": lambda sound: b"[" + sound + b"]",
    "an empty list": lambda sound: b"[]",
    "an empty object": lambda sound: b"{}",
    "a word": lambda sound: b'"word"',
    "a number": lambda sound: b"7",
    "NaN": lambda sound: b"NaN",
    "deep": lambda sound: b"[" * 10**5,
    "deep and closed": lambda sound: b'{"a":' * 300 + b"1" + b"}" * 300,
    "a number of 4,000 digits": lambda sound: b'{"seed": ' + b"9" * 4000 + b"}",
    "a number of 5,000 digits": lambda sound: b'{"seed": ' + b"9" * 5000 + b"}",
    "twice": lambda sound: sound + sound,
    "a lone surrogate": lambda sound: b'{"study": "\\ud800"}',
}
"""The same, for files of JSON that hold an object."""
