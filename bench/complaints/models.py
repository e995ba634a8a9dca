"""torch and torchvision's models, where torchvision was built for another torch, too."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import infer  # noqa: E402

torch, torchvision_models = infer.import_torchvision()
