"""The names that Python binds itself, pinned: the union of CPython 3.11, 3.12 and 3.13.

The interpreter that runs this is not asked, so that a verdict does not depend on it.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BUILTINS = _words(
    "ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup "
    "BlockingIOError BrokenPipeError BufferError BytesWarning ChildProcessError "
    "ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError "
    "DeprecationWarning EOFError Ellipsis EncodingWarning EnvironmentError Exception "
    "ExceptionGroup False FileExistsError FileNotFoundError FloatingPointError FutureWarning "
    "GeneratorExit IOError ImportError ImportWarning IndentationError IndexError "
    "InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError "
    "ModuleNotFoundError NameError None NotADirectoryError NotImplemented NotImplementedError "
    "OSError OverflowError PendingDeprecationWarning PermissionError ProcessLookupError "
    "PythonFinalizationError RecursionError ReferenceError ResourceWarning RuntimeError "
    "RuntimeWarning StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError "
    "SystemExit TabError TimeoutError True TypeError UnboundLocalError UnicodeDecodeError "
    "UnicodeEncodeError UnicodeError UnicodeTranslateError UnicodeWarning UserWarning "
    "ValueError Warning WindowsError ZeroDivisionError _IncompleteInputError abs aiter all "
    "anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod compile "
    "complex copyright credits delattr dict dir divmod enumerate eval exec exit filter float "
    "format frozenset getattr globals hasattr hash help hex id input int isinstance issubclass "
    "iter len license list locals map max memoryview min next object oct open ord pow print "
    "property quit range repr reversed round set setattr slice sorted staticmethod str sum "
    "super tuple type vars zip __build_class__ __debug__ __import__"
)
# Bound by the import system in every module (`__path__` in packages).
MODULE_NAMES = _words(
    "__annotations__ __builtins__ __cached__ __dict__ __doc__ __file__ __loader__ __name__ "
    "__package__ __path__ __spec__"
)
# Bound in a class body before it runs.
CLASS_NAMES = frozenset({"__module__", "__qualname__"})
# Public attributes of object, str, bytes, list, dict, set, tuple, int and float.
ATTRIBUTES = _words(
    "add append as_integer_ratio bit_count bit_length capitalize casefold center clear conjugate "
    "copy count decode denominator difference difference_update discard encode endswith "
    "expandtabs extend find format format_map from_bytes fromhex fromkeys get hex imag index "
    "insert intersection intersection_update is_integer isalnum isalpha isascii isdecimal isdigit "
    "isdisjoint isidentifier islower isnumeric isprintable isspace issubset issuperset istitle "
    "isupper items join keys ljust lower lstrip maketrans numerator partition pop popitem real "
    "remove removeprefix removesuffix replace reverse rfind rindex rjust rpartition rsplit rstrip "
    "setdefault sort split splitlines startswith strip swapcase symmetric_difference "
    "symmetric_difference_update title to_bytes translate union update upper values zfill"
)
