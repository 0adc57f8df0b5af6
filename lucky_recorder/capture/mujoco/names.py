"""Names: what the parts of a model are called, where their values are, and which actuator drives which joint."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import mujoco

from lucky_recorder.errors import SettingsError

_BALL = ("_qw", "_qx", "_qy", "_qz")
_FREE = ("_x", "_y", "_z", *_BALL)
# The inputs an actuator may take, in the order of their commands and of their bits.
_INPUTS = ("_pos", "_vel", "_ff", "_voltage", "_none", "_pressure")
_ORIENTATION = {3: ("_x", "_y", "_z"), 4: _BALL}


def name_of(model: mujoco.MjModel, kind: str, index: int) -> str:
    """Return a thing's name; one without a name is called by its kind and id: ``joint_3``."""
    given: str | None = mujoco.mj_id2name(model, object_of(kind), index)
    return given or f"{kind}_{index}"


def id_of(model: mujoco.MjModel, kind: str, name: str, field: str) -> int:
    """Return the id of a thing by the name that `name_of` gives it.

    Raises:
        SettingsError: If the model has none of that name; names the nearest ones it has.
    """
    # Real names first: a joint may really be called joint_3.
    index = int(mujoco.mj_name2id(model, object_of(kind), name))
    if index < 0:
        known = all_of(model, kind)
        if name in known:
            return known.index(name)
        near = difflib.get_close_matches(name, known, 3, 0.4) or known[:8]
        raise SettingsError.of(
            field, name, f"the model has no {kind} of that name; it has: {', '.join(near) or 'none'}"
        )
    return index


def all_of(model: mujoco.MjModel, kind: str) -> list[str]:
    """Return the names of all things of a kind."""
    counts = {
        "body": model.nbody,
        "joint": model.njnt,
        "actuator": actuator_count(model),
        "camera": model.ncam,
        "sensor": model.nsensor,
        "site": model.nsite,
    }
    return [name_of(model, kind, i) for i in range(counts[kind])]


def object_of(kind: str) -> int:
    """Return MuJoCo's number of a kind of object, such as ``body`` or ``flex``."""
    return int(getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}"))


def joint_suffixes(model: mujoco.MjModel, joint: int) -> tuple[str, ...]:
    """Return a suffix per position coordinate: none for hinge and slide, ``_qw``… for ball, ``_x``… for free joints."""
    kind = int(model.jnt_type[joint])
    if kind == int(mujoco.mjtJoint.mjJNT_FREE):
        return _FREE
    return _BALL if kind == int(mujoco.mjtJoint.mjJNT_BALL) else ("",)


def joint_addresses(model: mujoco.MjModel, joint: int) -> range:
    """Return where a joint's coordinates lie in ``qpos``."""
    start = int(model.jnt_qposadr[joint])
    return range(start, start + len(joint_suffixes(model, joint)))


def joint_degrees(model: mujoco.MjModel, joint: int) -> range:
    """Return where a joint's degrees of freedom lie in ``qvel``: turning has three, though a quaternion has four."""
    degrees = {7: 6, 4: 3, 1: 1}[len(joint_suffixes(model, joint))]
    start = int(model.jnt_dofadr[joint])
    return range(start, start + degrees)


def actuator_count(model: mujoco.MjModel) -> int:
    """Return how many actuators there are: as many as commands, but for those that take several or none."""
    # Before MuJoCo let an actuator take several commands, it had one for each and counted both as nu.
    return int(getattr(model, "nactuator", model.nu))


def commands_of(model: mujoco.MjModel, actuator: int) -> range:
    """Return where an actuator's commands lie in ``ctrl``: mostly it has one."""
    if not hasattr(model, "actuator_ctrladr"):
        return range(actuator, actuator + 1)
    start = int(model.actuator_ctrladr[actuator])
    return range(start, start + int(model.actuator_ctrlnum[actuator]))


def command_names(model: mujoco.MjModel, actuator: int) -> tuple[str, ...]:
    """Return a name per command: the actuator's, with a suffix where it takes several: ``wrist_pos``, ``wrist_vel``."""
    name = name_of(model, "actuator", actuator)
    count = len(commands_of(model, actuator))
    return (name,) if count == 1 else tuple(name + suffix for suffix in _command_suffixes(model, actuator, count))


def _command_suffixes(model: mujoco.MjModel, actuator: int, count: int) -> tuple[str, ...]:
    if _is_orientation(model, actuator):
        return _ORIENTATION[count]
    taken = int(model.actuator_ctrlspec[actuator]) if count else 0
    named = tuple(suffix for bit, suffix in enumerate(_INPUTS) if taken >> bit & 1)
    return named if len(named) == count else tuple(f"_{i}" for i in range(count))


def _is_orientation(model: mujoco.MjModel, actuator: int) -> bool:
    # An older MuJoCo has no such transmission; -1 stands for none.
    return int(model.actuator_trntype[actuator]) == int(getattr(mujoco.mjtTrn, "mjTRN_SO3", -1))


def _drives_joint_directly(model: mujoco.MjModel, actuator: int) -> bool:
    """Tell whether an actuator has a joint transmission."""
    # Integers on both sides: since MuJoCo 3.12 a numpy integer is never `in` a tuple of its enum members.
    direct = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
    return int(model.actuator_trntype[actuator]) in direct


def driven_joints(model: mujoco.MjModel, actuator: int) -> tuple[int, ...]:
    """Return the joints an actuator drives: of its joint transmission, or of its fixed tendon."""
    target, reference = (int(i) for i in model.actuator_trnid[actuator])
    # An orientation actuator turns a ball joint, or one site relative to another: then neither id is a joint's.
    turns_ball = _is_orientation(model, actuator) and reference < 0
    if turns_ball or _drives_joint_directly(model, actuator):
        return (target,)
    if int(model.actuator_trntype[actuator]) != int(mujoco.mjtTrn.mjTRN_TENDON):
        return ()
    return _tendon_objects(model, target, int(mujoco.mjtWrap.mjWRAP_JOINT))


def actuator_bodies(model: mujoco.MjModel, actuator: int) -> tuple[int, ...]:
    """Return the bodies an actuator acts on."""
    joints = driven_joints(model, actuator)
    if joints:
        return tuple(int(model.jnt_bodyid[j]) for j in joints)
    kind = int(model.actuator_trntype[actuator])
    target = int(model.actuator_trnid[actuator, 0])
    if kind == int(mujoco.mjtTrn.mjTRN_TENDON):
        sites: Sequence[int] = _tendon_objects(model, target, int(mujoco.mjtWrap.mjWRAP_SITE))
        return tuple(int(model.site_bodyid[s]) for s in sites)
    if kind == int(mujoco.mjtTrn.mjTRN_BODY):
        return (target,)
    return (int(model.site_bodyid[target]),)


def _tendon_objects(model: mujoco.MjModel, tendon: int, wrap: int) -> tuple[int, ...]:
    start = int(model.tendon_adr[tendon])
    path = range(start, start + int(model.tendon_num[tendon]))
    return tuple(int(model.wrap_objid[i]) for i in path if int(model.wrap_type[i]) == wrap)


def is_within(model: mujoco.MjModel, body: int, root: int) -> bool:
    """Tell whether a body is ``root`` or below it."""
    while body not in (root, 0):
        body = int(model.body_parentid[body])
    return body == root
