"""Record a bare MuJoCo model, without Gymnasium: a pendulum is pushed, and an episode succeeds if it swings high."""

import argparse

import mujoco

import lucky_recorder as lr

PENDULUM = """
<mujoco model="pendulum">
  <visual><quality shadowsize="1024" offsamples="0"/></visual>
  <worldbody>
    <light pos="0 -1 3"/> <camera name="side" pos="0 -2 1" xyaxes="1 0 0 0 0 1"/>
    <body pos="0 0 1">
      <joint name="swing" axis="0 1 0" damping="0.01"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.03" rgba="0.9 0.3 0.1 1"/>
    </body>
  </worldbody>
  <actuator><motor name="push" joint="swing" ctrlrange="-1 1"/></actuator>
</mujoco>"""

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--output-dir", default=".")
parser.add_argument("--episodes", type=int, default=3)
arguments = parser.parse_args()
model = mujoco.MjModel.from_xml_string(PENDULUM)
data = mujoco.MjData(model)
camera = lr.Camera("side", width=320, height=240)
with lr.Observer(output_dir=arguments.output_dir, data_hz=50, cameras=[camera], model=model, data=data) as observer:
    observer.start_recording()
    for _ in range(arguments.episodes):
        mujoco.mj_resetData(model, data)
        observer.mark_reset()
        for _ in range(100):
            data.ctrl[0] = 1 if data.qvel[0] >= 0 else -1
            observer.tick()  # the row of this tick: the state as it is, and the command about to act on it
            mujoco.mj_step(model, data, nstep=10)
        observer.end_current_episode(success=abs(data.qpos[0]) > 1)

print(observer.session_path)
