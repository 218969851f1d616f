"""Command lines for torchrun and Python become those of the runtime, or are refused."""

import pytest

from webhook.command_wrap import wrap

RUN = "python -m elastic_runtime"
RESTART = f"{RUN} --restart"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("torchrun train.py --lr 1", f"{RESTART} -- train.py --lr 1", id="torchrun"),
        pytest.param(
            "torchrun --nnodes=2 --nproc_per_node 4 --rdzv-backend c10d --standalone train.py",
            f"{RESTART} -- train.py",
            id="its options of rendezvous and numbers are left out",
        ),
        pytest.param("torchrun --nproc-per-node=gpu a.py", f"{RESTART} -- a.py", id="of all GPUs"),
        pytest.param("torchrun -m pkg.train", f"{RESTART} -m -- pkg.train", id="a module"),
        pytest.param("torchrun -- train.py", f"{RESTART} -- train.py", id="a separator"),
        pytest.param(
            "/opt/venv/bin/torchrun train.py",
            "/opt/venv/bin/python -m elastic_runtime --restart -- train.py",
            id="of an environment, with its Python",
        ),
        pytest.param(
            "python3 -u -m torch.distributed.run --nnodes 1 a.py",
            "python3 -u -m elastic_runtime --restart -- a.py",
            id="torchrun as a module",
        ),
        pytest.param("python train.py -x", f"{RUN} -- train.py -x", id="a script"),
        pytest.param(
            "/usr/bin/python3.12 -u train.py",
            "/usr/bin/python3.12 -u -m elastic_runtime -- train.py",
            id="another Python, unbuffered as the workers are",
        ),
        pytest.param("python -m pkg.train 1", f"{RUN} -m pkg.train 1", id="a script in a package"),
        pytest.param(f"{RESTART} -- a.py", f"{RESTART} -- a.py", id="done already"),
        pytest.param(
            "python -O -m elastic_runtime -- a.py",
            "python -O -m elastic_runtime -- a.py",
            id="done already, by the user",
        ),
        pytest.param(
            "torchrun --role $(ROLE) $(SCRIPT)", f"{RESTART} -- $(SCRIPT)", id="references"
        ),
    ],
)
def test_a_command_is_rewritten(command: str, expected: str) -> None:
    assert wrap(command.split(), 4) == expected.split()
    assert wrap(expected.split(), 4) == expected.split()


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        pytest.param("", "is not set, so it is the image's own", id="of the image"),
        pytest.param("sh -c torchrun", "is 'sh -c torchrun', which neither starts", id="a shell"),
        pytest.param("accelerate launch a.py", "neither starts torchrun nor python", id="another"),
        pytest.param("python -c pass", "has the option '-c' of python", id="no script"),
        pytest.param("python -I a.py", "has the option '-I' of python", id="ignores PYTHONPATH"),
        pytest.param("python", "names no script", id="nothing"),
        pytest.param("python -m", "has the option '-m' of python", id="no module"),
        pytest.param("torchrun --standalone", "names no script for torchrun", id="only options"),
        pytest.param(
            "torchrun --no-python run.sh", "has torchrun's option '--no-python'", id="no Python"
        ),
        pytest.param(
            "torchrun --nproc-per-node 8 a.py",
            "has --nproc-per-node 8, but an elastic job has 4 processes in each pod",
            id="another number of processes",
        ),
        pytest.param("x" * 999, f"is '{'x' * 60}…'", id="a long one"),
    ],
)
def test_what_cannot_be_rewritten_is_refused_with_the_cure(command: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r"^(is|has|names) ") as error:
        wrap(command.split(), 4)
    assert complaint in str(error.value)


@pytest.mark.parametrize("flag", ["-O", "-W ignore", "-Werror", "-X dev", "-B", "-s", "-P", "-uO"])
@pytest.mark.parametrize("rest", ["a.py", "-m pkg.train", "-m torch.distributed.run a.py"])
def test_an_option_of_python_that_the_workers_would_lack_is_refused(flag: str, rest: str) -> None:
    with pytest.raises(ValueError, match=r"of python, without which the workers") as error:
        wrap(f"python -u {flag} {rest}".split(), 4)
    assert f"has the option {flag.split()[0]!r}" in str(error.value)
    assert "set its environment variable, such as PYTHONOPTIMIZE" in str(error.value)
    assert "use inject" in str(error.value)


@pytest.mark.parametrize(
    "module",
    [
        "accelerate.commands.launch",
        "deepspeed",
        "deepspeed.launcher.runner",
        "lightning",
        "lightning.fabric.cli",
    ],
)
def test_another_launcher_is_refused_as_a_module_too(module: str) -> None:
    with pytest.raises(ValueError, match=rf"^names the launcher '{module}', .* use inject$"):
        wrap(["python", "-m", module, "a.py"], 4)
    assert wrap(["python", "-m", f"{module}_of_mine"], 4)[-1] == f"{module}_of_mine"
