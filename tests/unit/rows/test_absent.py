"""The value of columns that an image left out."""

import copy
import pickle

from replica_client.rows.special_values import ABSENT, AbsentType


def test_absent_is_one_false_object_and_not_none() -> None:
    assert not ABSENT
    assert ABSENT is not None
    assert repr(ABSENT) == "ABSENT"
    assert AbsentType() is ABSENT
    assert pickle.loads(pickle.dumps(ABSENT)) is ABSENT
    assert copy.deepcopy(ABSENT) is ABSENT
