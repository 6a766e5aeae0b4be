from gleaner_lab import cli, tree


def test_a_package_in_its_tree_knows_it(tmp_path):
    (tmp_path / "lab" / "experiments").mkdir(parents=True)
    assert tree.find(tmp_path / "lab" / "gleaner_lab", tmp_path / "elsewhere") == tmp_path


def test_an_installed_package_takes_the_tree_that_it_is_called_in(tmp_path):
    inside = tmp_path / "docs" / "measured"
    (tmp_path / "lab" / "experiments").mkdir(parents=True)
    inside.mkdir(parents=True)
    package = tmp_path / "venv" / "lib" / "gleaner_lab"
    assert tree.find(package, inside) == tmp_path


def test_without_a_tree_what_runs_leave_lies_where_they_were_called(tmp_path):
    assert tree.find(tmp_path / "lib" / "gleaner_lab", tmp_path / "here") == tmp_path / "here"


def test_without_a_tree_the_experiments_are_those_of_the_package(tmp_path):
    names = sorted(path.stem for path in tree.data("experiments", tmp_path).glob("*.yaml"))
    assert names == sorted(path.stem for path in cli.EXPERIMENTS.glob("*.yaml"))
    assert (tree.data("papers", tmp_path) / "index.yaml").is_file()
