//! Making a device by its settings.

use super::Device;
use super::block::BlockDevice;
use super::disk::Disk;
use super::drive::Drive;
use super::rated::Rated;
use super::settings::{DeviceSettings, SettingError, StripeSettings};
use super::solid::Solid;
use super::stick::Stick;
use super::stripe::Stripe;
use forebay_base::sync::Arc;
use forebay_rt::Rt;

/// Makes a device. Its chance is the stream `name` of the runtime.
///
/// # Errors
/// [`SettingError`] if it cannot be.
pub fn build(
    rt: &Rt,
    name: &str,
    settings: &DeviceSettings,
) -> Result<Arc<dyn Device>, SettingError> {
    settings.check()?;
    let queue = settings.queue();
    let (drive, capacity_bytes): (Box<dyn Drive>, u64) = match settings {
        DeviceSettings::Disk(disk) => {
            let drive = Disk::new(disk.clone(), rt.stream(name));
            (Box::new(drive), disk.capacity_bytes)
        }
        DeviceSettings::Stick(stick) => (Box::new(Stick::new(stick.clone())), stick.capacity_bytes),
        DeviceSettings::Solid(solid) => (Box::new(Solid::new(solid.clone())), solid.capacity_bytes),
        DeviceSettings::Rated(rated) => {
            let depth = rated.depth.unwrap_or(queue.requests);
            let drive = Rated::new(rated.rate(), depth as usize);
            (Box::new(drive), rated.capacity_bytes)
        }
        DeviceSettings::Stripe(stripe) => return build_stripe(rt, name, stripe),
    };
    let device = BlockDevice::new(rt.clone(), drive, queue, capacity_bytes);
    Ok(Arc::new(device))
}

fn build_stripe(
    rt: &Rt,
    name: &str,
    stripe: &StripeSettings,
) -> Result<Arc<dyn Device>, SettingError> {
    let member = DeviceSettings::named(&stripe.of).expect("the settings were checked");
    let member = member.at_speed(stripe.speed_percent);
    let mut members = Vec::with_capacity(stripe.members as usize);
    for index in 0..stripe.members {
        members.push(build(rt, &format!("{name}/{index}"), &member)?);
    }
    Ok(Arc::new(Stripe::new(members, stripe.chunk_bytes)))
}
