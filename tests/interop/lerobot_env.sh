#!/usr/bin/env bash
# Makes the environment in which tests/interop meets LeRobot, in $LUCKY_RECORDER_INTEROP/lerobot; once made, it is kept.
# Needs Python 3.11, about 2 GB and some minutes. LeRobot stands in a folder per version, for PYTHONPATH; what both
# need stands in the virtual environment. Installed by itself, it would bring a CUDA build of torch and ask for 3.12.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${LUCKY_RECORDER_INTEROP:-$HOME/.cache/lucky_recorder/interop}/lerobot
versions=(0.4.4 0.6.1)
if [ -e "$home/.done" ]; then exit 0; fi

# Python compiles what it imports; pip would compile twenty thousand files.
pip_install() { "$home/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"; }

# torchcodec loads the system's ffmpeg.
if ! command -v ffmpeg >/dev/null; then
  sudo=
  if [ "$(id -u)" != 0 ]; then sudo="sudo -n"; fi
  $sudo apt-get update -qq
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends ffmpeg >/dev/null
fi

echo "Installing LeRobot ${versions[*]} into $home ..."
mkdir -p "$home"
python3.11 -m venv --clear "$home"
pip_install --requirement "$here/lerobot_requirements.txt"
# Their own requirements name a torch of their own, so these come without.
pip_install --no-deps torchvision==0.28.0 torchcodec==0.13.0
for version in "${versions[@]}"; do
  pip_install --no-deps --ignore-requires-python --target "$home/lerobot-$version" "lerobot==$version"
done
"$home/bin/python" "$here/lerobot_adapt.py" "$home"
for version in "${versions[@]}"; do
  HF_HUB_OFFLINE=1 PYTHONPATH=$home/lerobot-$version "$home/bin/python" -c 'import lerobot.datasets.lerobot_dataset'
done
touch "$home/.done"
