import java.util.ArrayList;
import java.util.List;

/**
 * A program of another runtime, which knows nothing of Gleaner: lists that come and go. Its collector and its compiler are
 * threads of their own; gleaner place puts them on processors.
 */
public class App {
    public static void main(String[] arguments) {
        long sum = 0;
        for (int round = 0; round < 200; round++) {
            List<Integer> list = new ArrayList<>();
            for (int number = 0; number < 10000; number++) {
                list.add(number);
            }
            sum += list.size();
        }
        System.out.println(sum);
    }
}
