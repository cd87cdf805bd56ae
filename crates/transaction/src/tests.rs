//! Whole transactions against real directories, with upper directories made by hand.

mod bed;
mod collecting;
mod committing;
mod crashing;
mod overlay;
mod reading;
