#![cfg_attr(fuzzing, no_main)]
trueup_fuzz::target!(trueup_fuzz::packet);
