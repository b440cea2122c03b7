"""Which part of a compilation is wrong: parts are switched off one after the other until the model
agrees with eager, and then the applications of that part, by halves. In come a model and the
arguments of a call, out comes a `Bisection`; called by users (`ortable.bisect`) and the shell."""
